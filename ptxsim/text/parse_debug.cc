// SPDX-License-Identifier: Apache-2.0
// Where the text came from, and pragmas. PTX ISA 11.5, 11.4 (.pragma).
#include "ptxsim/text/parts.h"

namespace octet::ptxsim::text {

namespace {

Result<SourcePoint> parse_point(Cursor& cursor) {
  SourcePoint point;
  OCTET_ASSIGN_OR_RETURN(point.file, cursor.natural("a file's index"));
  OCTET_ASSIGN_OR_RETURN(point.line, cursor.natural("a line"));
  OCTET_ASSIGN_OR_RETURN(point.column, cursor.natural("a column"));
  return point;
}

Result<std::string> parse_section_name(Cursor& cursor) {
  if (cursor.at(Token::Kind::kDotted)) return std::string(cursor.take().text);
  return cursor.name("a number, a label or a section");
}

Result<SectionValue> parse_section_value(Cursor& cursor) {
  SectionValue value;
  value.place = cursor.place();
  if (cursor.at(Token::Kind::kNumber) || cursor.at("-")) {
    OCTET_ASSIGN_OR_RETURN(value.number, cursor.number("a number"));
    return value;
  }
  OCTET_ASSIGN_OR_RETURN(value.name, parse_section_name(cursor));
  if (cursor.take_if("-")) {
    OCTET_ASSIGN_OR_RETURN(value.minus, parse_section_name(cursor));
    return value;
  }
  OCTET_ASSIGN_OR_RETURN(value.offset, cursor.offset());
  return value;
}

Result<SectionLine> parse_section_line(Cursor& cursor) {
  SectionLine line;
  line.place = cursor.place();
  if (cursor.at(Token::Kind::kName)) {
    OCTET_ASSIGN_OR_RETURN(line.label, cursor.name("a label"));
    OCTET_RETURN_IF_ERROR(cursor.expect(":"));
    return line;
  }
  if (!cursor.at(".b8") && !cursor.at(".b16") && !cursor.at(".b32") && !cursor.at(".b64")) {
    return cursor.refusal("a label, .b8, .b16, .b32, .b64 or '}'");
  }
  line.type = *find_type(cursor.take().text.substr(1));
  OCTET_RETURN_IF_ERROR(parse_list(cursor, [&]() -> Status {
    OCTET_ASSIGN_OR_RETURN(SectionValue value, parse_section_value(cursor));
    line.values.push_back(std::move(value));
    return {};
  }));
  return line;
}

}  // namespace

Result<File> parse_file(Cursor& cursor) {
  File file;
  file.place = cursor.place();
  OCTET_RETURN_IF_ERROR(cursor.expect(".file"));
  OCTET_ASSIGN_OR_RETURN(file.index, cursor.natural("a file's index"));
  OCTET_ASSIGN_OR_RETURN(file.path, cursor.string("a path in quotes"));
  if (!cursor.take_if(",")) return file;
  file.stamp.emplace();
  OCTET_ASSIGN_OR_RETURN(file.stamp->time, cursor.natural("a time"));
  OCTET_RETURN_IF_ERROR(cursor.expect(","));
  OCTET_ASSIGN_OR_RETURN(file.stamp->bytes, cursor.natural("a number of bytes"));
  return file;
}

Result<Section> parse_section(Cursor& cursor) {
  Section section;
  section.place = cursor.place();
  OCTET_RETURN_IF_ERROR(cursor.expect(".section"));
  OCTET_ASSIGN_OR_RETURN(section.name, parse_section_name(cursor));
  OCTET_RETURN_IF_ERROR(cursor.expect("{"));
  while (!cursor.take_if("}")) {
    OCTET_ASSIGN_OR_RETURN(SectionLine line, parse_section_line(cursor));
    section.lines.push_back(std::move(line));
  }
  return section;
}

Result<Location> parse_location(Cursor& cursor) {
  Location location;
  location.place = cursor.place();
  OCTET_RETURN_IF_ERROR(cursor.expect(".loc"));
  OCTET_ASSIGN_OR_RETURN(location.at, parse_point(cursor));
  if (!cursor.take_if(",")) return location;
  location.inlined.emplace();
  OCTET_RETURN_IF_ERROR(cursor.expect("function_name"));
  OCTET_ASSIGN_OR_RETURN(location.inlined->function, cursor.name("a label"));
  if (cursor.take_if("+")) {
    OCTET_ASSIGN_OR_RETURN(location.inlined->offset, cursor.natural("an offset in bytes"));
  }
  OCTET_RETURN_IF_ERROR(cursor.expect(","));
  OCTET_RETURN_IF_ERROR(cursor.expect("inlined_at"));
  OCTET_ASSIGN_OR_RETURN(location.inlined->at, parse_point(cursor));
  return location;
}

Result<Pragma> parse_pragma(Cursor& cursor) {
  Pragma pragma;
  pragma.place = cursor.place();
  OCTET_RETURN_IF_ERROR(cursor.expect(".pragma"));
  OCTET_RETURN_IF_ERROR(parse_list(cursor, [&]() -> Status {
    OCTET_ASSIGN_OR_RETURN(std::string text, cursor.string("a string"));
    pragma.strings.push_back(std::move(text));
    return {};
  }));
  OCTET_RETURN_IF_ERROR(cursor.expect(";"));
  return pragma;
}

}  // namespace octet::ptxsim::text
