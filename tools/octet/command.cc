// SPDX-License-Identifier: Apache-2.0
#include "command.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fmt/format.h>
#include <limits>
#include <system_error>
#include <type_traits>
#include <vector>

#include "console.h"
#include "core/nearest.h"
#include "core/printable.h"

namespace octet::tools {
namespace {

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += "; ";
    } else {
      line += c;
    }
  }
  return printable(line);
}

int misused(const CLI::App& app, std::string_view what) {
  print_err("{}: {} (see {} --help)\n", app.get_name(), one_line(std::string(what)),
            app.get_name());
  return kMisused;
}

// The first word that no option took, with the nearest option's name.
std::string unexpected_word(const CLI::App& app) {
  const std::vector<std::string> left = app.remaining();
  const auto option = std::find_if(left.begin(), left.end(), [](const std::string& word) {
    return word.size() > 1 && word[0] == '-';
  });
  if (option == left.end()) return fmt::format("unexpected word '{}'", left.empty() ? "" : left[0]);
  const std::string word = option->substr(0, option->find('='));
  std::vector<std::string> names;
  for (const CLI::Option* o : app.get_options()) {
    for (const std::string& name : o->get_lnames()) names.push_back("--" + name);
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  return fmt::format("no option '{}'{}", word, did_you_mean(word, views));
}

// CLI11's "Could not convert: --layer = x" in our words.
std::string not_converted(std::string_view what) {
  constexpr std::string_view kBefore = "Could not convert: ", kBetween = " = ";
  const size_t between = what.find(kBetween);
  if (!what.starts_with(kBefore) || between == std::string_view::npos) return std::string(what);
  return fmt::format("{}: found '{}', want a whole number",
                     what.substr(kBefore.size(), between - kBefore.size()),
                     what.substr(between + kBetween.size()));
}

// A whole number as CLI11 reads it is cut to the widest type's range, or wraps: the word itself is judged.
template <class Int>
Status check_fits(const std::string& option, const std::string& word) {
  Int value{};
  const char* end = word.data() + word.size();
  const auto [last, error] = std::from_chars(word.data(), end, value);
  const bool is_negative = std::is_unsigned_v<Int> && word.starts_with('-');
  if (error != std::errc::result_out_of_range && !is_negative) return {};
  return invalid_argument(fmt::format("{}: found {}, want {}..{}", option, word,
                                      std::numeric_limits<Int>::min(),
                                      std::numeric_limits<Int>::max()));
}

Status check_value(const CLI::Option& option, const std::string& word) {
  const std::string name = option.get_name();
  // Empty would otherwise mean the default, which an unset variable in a script does not.
  if (word.empty()) return misuse(fmt::format("{}: found '', want a value", name));
  const std::string type = option.get_type_name();
  if (type == "INT") return check_fits<int64_t>(name, word);
  if (type == "UINT") return check_fits<uint64_t>(name, word);
  return {};
}

// CLI11 drops the empty elements of a list: "1,,2".
Status check_list(const CLI::App& app, const Args& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const size_t equals = args[i].find('=');
    const CLI::Option* option = app.get_option_no_throw(args[i].substr(0, equals));
    if (option == nullptr || option->get_delimiter() == '\0') continue;
    const bool has_next = equals == std::string::npos && i + 1 < args.size();
    const std::string list = has_next ? args[i + 1] : args[i].substr(equals + 1);
    const std::string d(1, option->get_delimiter());
    if ((d + list + d).find(d + d) == std::string::npos) continue;
    return misuse(
        fmt::format("{}: found '{}', want a value beside each {}", option->get_name(), list, d));
  }
  return {};
}

Status check_values(const CLI::App& app, const Args& args) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& word : option->results()) {
      OCTET_RETURN_IF_ERROR(check_value(*option, word));
    }
  }
  return check_list(app, args);
}

}  // namespace

void describe_verb(CLI::App& app, std::string_view verb, std::string_view purpose,
                   std::string_view example) {
  app.name(fmt::format("octet {}", verb));
  app.description(std::string(purpose) + "\n");
  app.footer(fmt::format("Example:\n  {}", example));
  app.get_formatter()->column_width(34);
  app.option_defaults()->always_capture_default();
}

std::optional<int> parse(CLI::App& app, const Args& args) {
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    write_out(app.help());
    return kDone;
  } catch (const CLI::ExtrasError&) {
    return misused(app, unexpected_word(app));
  } catch (const CLI::ConversionError& error) {
    return misused(app, not_converted(error.what()));
  } catch (const CLI::ParseError& error) {
    // A mistyped --layer is an unknown option, not a missing one.
    return misused(app, app.remaining().empty() ? error.what() : unexpected_word(app));
  }
  const Status values = check_values(app, args);
  if (values.ok()) return std::nullopt;
  const std::string verb = app.get_name().substr(app.get_name().find(' ') + 1);
  return finish(values, verb);
}

int finish(const Status& status, std::string_view verb) {
  if (status.ok()) return kDone;
  const bool misuse = status.code == Code::kMisuse;
  print_err("octet: {}{}\n", one_line(status.why),
            misuse ? fmt::format(" (see octet {} --help)", verb) : "");
  return misuse ? kMisused : kFailed;
}

void note(std::string_view text) { print_err("octet: note: {}\n", one_line(std::string(text))); }

Status check_range(std::string_view option, int64_t found, Range range) {
  if (found >= range.least && found <= range.most) return {};
  return invalid_argument(
      fmt::format("{}: found {}, want {}..{}", option, found, range.least, range.most));
}

Status check_output_folder(const std::filesystem::path& output) {
  std::error_code error;
  if (std::filesystem::is_directory(output, error)) {
    return io_error(fmt::format("{}: found a folder, want the name of a file", output.string()));
  }
  const std::filesystem::path folder = output.has_parent_path() ? output.parent_path() : ".";
  if (std::filesystem::is_directory(folder, error)) return {};
  return io_error(
      fmt::format("{}: no folder {}, want one that exists", output.string(), folder.string()));
}

void print_json(const Json& json) {
  // Names from a file may be no UTF-8: they are shown with a replacement character, not refused.
  print_out("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace octet::tools
