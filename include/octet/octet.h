/* SPDX-License-Identifier: Apache-2.0 */
/* Octet's C interface: the routed experts of a mixture-of-experts layer for the rows of a decode step, 4-bit weights decoded
 * exactly. C99 and later, and C++ (octet.hpp has the same calls with owning handles).
 *
 *   octet_model_open ─► octet_layer_load ─┐
 *                                         ├─► octet_layer ─► octet_layer_workspace_bytes ─► octet_layer_run, any number of times
 *   the caller's tensors ─► octet_layer_bind ─┘                                                ▲
 *   octet_pool_create ─► octet_pool_executor, or the caller's own threads ─────────────────────┤  (NULL: the calling thread)
 *   the caller's workspace, 64-byte aligned; rows x in, y out ─────────────────────────────────┘
 *   named tensors ─► octet_op ─► octet_tensors                  every single operation, to compare with one's own
 *
 * Letters: T tokens (rows), H hidden, I intermediate of this rank, Ip = I padded to 128, E experts of the whole layer, k experts
 * a token (top_k). Tensors are row-major, contiguous, little endian. "semantics" names a section of
 * docs/semantics.md, the specification; docs/numerics.md derives its bounds.
 *
 * Status.  Every call that can fail returns octet_status; octet_last_error() has the sentence: what, value found, value wanted.
 *          A null pointer, where it is not said to be allowed, is OCTET_INVALID_ARGUMENT. No exception leaves the library.
 * Stored.  On success what the call says. On failure a handle's `*out` is NULL and nothing else is written.
 * Memory.  The caller frees handles with the call named beside their creation; NULL is ignored there. All other pointers are
 *          the caller's, and must live until the call returns, except where it says longer (octet_layer_bind,
 *          octet_layer_enqueue, octet_enqueue_rank_sum).
 * Threads. Every call may be made from any thread. Layers, models and results do not change after they are made; calls on
 *          one layer may overlap as long as each has its own workspace and outputs.
 * Growth.  Structs that begin with `struct_size` may get fields at their end, for which 0 means "as before". Initialise them
 *          with their OCTET_..._INIT; the library then accepts callers compiled against an older header, and refuses
 *          fields that it does not know. octet_tensor, octet_setting and octet_executor stay as they are.
 */
#ifndef OCTET_OCTET_H
#define OCTET_OCTET_H

#include <stddef.h>
#include <stdint.h>

#include "octet/version.h"

#if defined(__GNUC__)
#define OCTET_API __attribute__((visibility("default")))
#else
#define OCTET_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming, modernize-use-using): C's names and typedefs */

/* ---- Statuses and versions ------------------------------------------------------------------------------------------- */

typedef enum octet_status {
  OCTET_OK = 0,
  OCTET_INVALID_ARGUMENT = 1, /* an argument, a tensor or a file has a wrong value */
  OCTET_UNSUPPORTED =
      2, /* right, but no kernel or reader here takes it: the sentence has every reason */
  OCTET_MISUSE = 3,       /* a name that does not exist: operation, setting, backend, kernel */
  OCTET_IO = 4,           /* the operating system refused: the sentence has its message */
  OCTET_DEVICE_ERROR = 5, /* a device reported an error */
  OCTET_INTERNAL = 6,     /* a bug of the library's */
  OCTET_OUT_OF_MEMORY = 7
} octet_status;

/* Why the last failing call of the calling thread failed: one line, UTF-8; "" before the first failure. The text stays until
 * the thread's next failing call. Never NULL. */
OCTET_API const char* octet_last_error(void);

/* The library's version, "MAJOR.MINOR.PATCH", as OCTET_VERSION is the header's. Static. */
OCTET_API const char* octet_version(void);

/* The binary interface that the library has; a program must find its header's OCTET_ABI_VERSION here. It is also the number
 * of the soname (liboctet.so.N). */
OCTET_API int octet_abi_version(void);

/* ---- Tensors --------------------------------------------------------------------------------------------------------- */

typedef uint16_t octet_bf16; /* the bits of a BF16 number */

typedef enum octet_dtype {
  OCTET_F64 = 0,
  OCTET_F32 = 1,
  OCTET_F16 = 2,
  OCTET_BF16 = 3,
  OCTET_I64 = 4,
  OCTET_I32 = 5,
  OCTET_I16 = 6,
  OCTET_I8 = 7,
  OCTET_U8 = 8,
  OCTET_F8_E4M3 = 9,
  OCTET_F8_E5M2 = 10,
  OCTET_F8_E8M0 = 11,
  OCTET_BOOL = 12
} octet_dtype;

#define OCTET_MAX_RANK 8

/* Somebody's bytes under a name. `data` may be NULL where a dimension is 0, and is aligned to its element's size. */
typedef struct octet_tensor {
  const char* name; /* as in the table of operations; octet_op only, elsewhere it may be NULL */
  int32_t dtype;    /* octet_dtype */
  int32_t rank;     /* 0 (a scalar) ... OCTET_MAX_RANK */
  int64_t dims[OCTET_MAX_RANK]; /* elements; the first `rank` count */
  const void* data;
} octet_tensor;

/* ---- Threads --------------------------------------------------------------------------------------------------------- */

/* Where a call's work runs. Calls take NULL for the calling thread alone, octet_pool_executor() for threads of the library's,
 * or the caller's own, so that a process has one pool:
 *
 *   run() calls task(arg, 0) ... task(arg, num_tasks - 1), each once, on any threads, in any order, and returns when all have
 *   returned. `num_threads` (at least 1) says how many may be under way at once; num_tasks is never more. Tasks never wait for
 *   one another. A layer's call calls run() some ten times, from the thread that made the call; calls that overlap may call
 *   it at the same time.
 *
 * Results are the same bytes for every executor (semantics 12). */
typedef struct octet_executor {
  void* context; /* handed to run() as it is */
  int num_threads;
  void (*run)(void* context, int num_tasks, void (*task)(void* arg, int index), void* arg);
} octet_executor;

typedef struct octet_pool octet_pool;

/* Starts threads. `num_threads`: 1 ... 1024, the calling thread among them; 0: as many as the process may run on.
 * *out: the pool, freed by octet_pool_destroy. */
OCTET_API octet_status octet_pool_create(int num_threads, octet_pool** out);
OCTET_API void octet_pool_destroy(octet_pool* pool);

/* The pool as an executor, valid as long as the pool; overlapping calls take turns. NULL for NULL. */
OCTET_API const octet_executor* octet_pool_executor(const octet_pool* pool);

/* ---- Checkpoints ----------------------------------------------------------------------------------------------------- */

typedef struct octet_model octet_model;

/* Opens a checkpoint: a folder with config.json, one safetensors file, or a packed file (`octet pack`). Files are
 * memory-mapped; no weight is read. *out: the model, freed by octet_model_close.
 * Errors: OCTET_IO (no such file), OCTET_INVALID_ARGUMENT (a damaged or hostile file, by tensor and value),
 * OCTET_UNSUPPORTED (a format that is not built, by name). */
OCTET_API octet_status octet_model_open(const char* path, octet_model** out);
OCTET_API void octet_model_close(octet_model* model);

/* The MoE layers found; 0 for NULL. */
OCTET_API int64_t octet_model_num_layers(const octet_model* model);

/* *out: the model's own index of the MoE layer at `position`, 0 ... octet_model_num_layers() - 1; ascending. */
OCTET_API octet_status octet_model_layer_index(const octet_model* model, int64_t position,
                                               int64_t* out);

/* "deepseek_v4", "gpt_oss", "modelopt" or "packed"; lives as long as the model. NULL for NULL. */
OCTET_API const char* octet_model_format(const octet_model* model);

/* ---- Layers ---------------------------------------------------------------------------------------------------------- */

typedef struct octet_layer octet_layer;

typedef enum octet_activations {
  OCTET_ACTIVATIONS_DEFAULT = 0, /* mxfp8 for DeepSeek-V4 and V4.1 with FP4 experts, else bf16 */
  OCTET_ACTIVATIONS_BF16 = 1,    /* W4A16, semantics 9 */
  OCTET_ACTIVATIONS_MXFP8 = 2    /* W4A8, semantics 3 and 7 */
} octet_activations;

/* What kernels may do with bf16 activations (semantics 9), and whether those of Hopper's FP8 unit, which keeps 13 fraction bits in sums of 32
 * products, may be taken for mxfp8 ones (semantics 12). Those for AVX2 and later hold x and h as integers, exact from 2^-14
 * of a block's largest on and within 2^-22 of it below; `fast` says what they hold of h. Any CPU's and the reference's hold
 * them exactly for either. */
typedef enum octet_precision {
  OCTET_PRECISION_FAST = 0, /* h exact from 2^-7 on, within 2^-15 below */
  OCTET_PRECISION_EXACT = 1 /* h as x */
} octet_precision;

/* Memory of a loaded layer's own: what its panels lie in, unless they are read in a mapped packed file. */
typedef enum octet_pages {
  OCTET_PAGES_HUGE = 0, /* 2 MB pages where the system has any to give: 6-7 % faster at one row */
  OCTET_PAGES_SMALL = 1
} octet_pages;

typedef enum octet_numa {
  OCTET_NUMA_FIRST_TOUCH = 0, /* each page on the node of the executor's thread that fills it */
  OCTET_NUMA_INTERLEAVE = 1   /* page by page over all nodes that the process may use */
} octet_numa;

typedef enum octet_packed_use {
  OCTET_PACKED_MMAP =
      0, /* read where the file is mapped: shared with other processes, loaded at once */
  OCTET_PACKED_COPY = 1 /* copied into memory of the layer's own */
} octet_packed_use;

typedef enum octet_weight_format { OCTET_MXFP4 = 0, OCTET_NVFP4 = 1 } octet_weight_format;

typedef struct octet_load_options {
  size_t struct_size;
  int64_t tp_rank,
      tp_ranks; /* this rank's part of I; ranks from 0. I % tp_ranks = 0, also cuts inside a scale block */
  int64_t ep_rank,
      ep_ranks; /* this rank's part of E; E % ep_ranks = 0. Ids in and out stay those of the whole layer */
  int32_t activations; /* octet_activations */
  int32_t precision;   /* octet_precision, semantics 9; mxfp8 on the host is exact for either */
  int64_t
      image_sentinel_lo; /* first of the five image token ids; -1: the configuration's, 0: no row is an image */
  const char*
      backend; /* "auto", "cpu", "cuda", "reference"; NULL: auto, which takes no CUDA device */
  const char* kernel; /* one of octet_kernel_name(); NULL: the best that takes the layer */
  /* Told now and then, on the calling thread, in bytes; NULL: nobody. */
  void (*progress)(void* context, int64_t done, int64_t total);
  void* progress_context;
  /* Of the layer's own memory; what is not 0 is refused where the layer has none: a mapped packed file, the reference kernel.
   * OCTET_IO: the system refuses to interleave. */
  int32_t pages;    /* octet_pages */
  int32_t numa;     /* octet_numa */
  int32_t packed;   /* octet_packed_use; other checkpoints are always copied */
  int32_t reserved; /* 0 */
} octet_load_options;
#define OCTET_LOAD_OPTIONS_INIT                                                                  \
  {                                                                                              \
    sizeof(octet_load_options), 0, 1, 0, 1, OCTET_ACTIVATIONS_DEFAULT, OCTET_PRECISION_FAST, -1, \
        NULL, NULL, NULL, NULL, OCTET_PAGES_HUGE, OCTET_NUMA_FIRST_TOUCH, OCTET_PACKED_MMAP, 0   \
  }

/* Loads the layer with the model's own index `layer_index` (octet_model_layer_index) into the order in which its kernel reads
 * it; takes at most 1.05 times the bytes of the scale blocks that the slice touches (docs/formats.md). A packed file stays mapped and nothing is
 * copied, unless the options say so or the layer goes to a CUDA device. `options` NULL: the defaults. *out: the layer, freed by octet_layer_free; the model may be closed before it. */
OCTET_API octet_status octet_layer_load(const octet_model* model, int64_t layer_index,
                                        const octet_load_options* options,
                                        const octet_executor* executor, octet_layer** out);

/* Weights in prepared order (operation `prepare`, semantics 6): interleaved, shuffled, padded, swizzled. */
typedef struct octet_prepared_weights {
  size_t struct_size;
  octet_tensor w13;       /* U8 [E, 2 Ip, H/2] e2m1 pairs, 32-byte aligned */
  octet_tensor w13_scale; /* U8 [E, 2 Ip, H/32] ue8m0, 128x4, 16-byte aligned */
  octet_tensor w2;        /* U8 [E, H, Ip/2] e2m1 pairs, 32-byte aligned */
  octet_tensor w2_scale;  /* U8 [E, H, Ip/32] ue8m0, 128x4, 16-byte aligned */
  octet_tensor clamp;     /* F32 [E] */
  int64_t intermediate;   /* I, at most Ip */
  int64_t top_k;          /* 1 ... 8 */
  const char* backend;    /* as in octet_load_options */
  const char* kernel;
} octet_prepared_weights;
#define OCTET_TENSOR_NONE \
  { NULL, OCTET_U8, 0, {0}, NULL }
#define OCTET_PREPARED_WEIGHTS_INIT                                                          \
  {                                                                                          \
    sizeof(octet_prepared_weights), OCTET_TENSOR_NONE, OCTET_TENSOR_NONE, OCTET_TENSOR_NONE, \
        OCTET_TENSOR_NONE, OCTET_TENSOR_NONE, 0, 6, NULL, NULL                               \
  }

/* A layer over the caller's tensors, which are not copied: they must outlive the layer; between calls their values may change,
 * their addresses may not. With backend "cuda" they are copied to the current device, on the calling thread, by way of host memory (their bytes
 * once more while it lasts, twice if they lie in device memory), and may be freed or changed afterwards; they may lie in device memory, from
 * which they are read once. E is a multiple of 32 up to 384, H of 128; everything that operation `check_weights` refuses is refused here with its sentence. mxfp8 activations. The layer has no gate: calls bring ids and weights.
 * *out: the layer, freed by octet_layer_free. */
OCTET_API octet_status octet_layer_bind(const octet_prepared_weights* weights, octet_layer** out);

OCTET_API void octet_layer_free(octet_layer* layer);

typedef struct octet_layer_info {
  size_t struct_size;
  int64_t hidden, intermediate; /* H; I of this rank */
  int64_t experts;              /* E: ids and logits count these */
  int64_t first_expert,
      local_experts;          /* this rank's: first_expert ... first_expert + local_experts - 1 */
  int64_t top_k;              /* k of the layer's router */
  int32_t weights;            /* octet_weight_format */
  int32_t activations;        /* octet_activations, never the default */
  int32_t precision;          /* octet_precision */
  int32_t has_shared_experts; /* 1: the checkpoint has shared experts; they are not in y */
  const char* router;         /* "dsv4", "hash", "softmax", ...; static */
  const char* kernel;         /* the chosen row of the kernel table; static */
  int64_t weight_bytes;       /* codes and scales of the local experts */
  int64_t resident_bytes;     /* memory that the layer holds itself */
} octet_layer_info;
#define OCTET_LAYER_INFO_INIT \
  { sizeof(octet_layer_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0 }

/* *info: filled as far as its struct_size, which the caller sets. */
OCTET_API octet_status octet_layer_get_info(const octet_layer* layer, octet_layer_info* info);

/* Which kernel the layer has and why not each of the others: a line a kernel, "NAME  yes" or "NAME  no  REASON", each ended by
 * a newline. buffer[0 ... buffer_bytes): the text, cut where it does not fit, ended by a NUL; NULL with 0 bytes is allowed.
 * *needed_bytes: what the whole text takes with its NUL. */
OCTET_API octet_status octet_layer_explain(const octet_layer* layer, char* buffer,
                                           size_t buffer_bytes, size_t* needed_bytes);

/* *bytes: the workspace that octet_layer_run needs for `tokens` rows (0 or more) on an executor with at most `num_threads`.
 * `top_k`: k of the ids that the call will bring; 0: the layer's. tokens * top_k is below 2^31. */
OCTET_API octet_status octet_layer_workspace_bytes(const octet_layer* layer, int64_t tokens,
                                                   int64_t top_k, int num_threads, size_t* bytes);

/* Whether x is what the decode kernels are made for, so that an engine can keep its own path for the rest: BF16 [T, H], 16-byte
 * aligned, and for a bound layer 1 <= T <= 8 (semantics 6). If not, the reason, with the value found and the value wanted.
 * Reads no element. octet_layer_run takes more: any T, and x as any array of its type; alignment is not checked there. */
OCTET_API octet_status octet_layer_accepts(const octet_layer* layer, const octet_tensor* x);

/* One call. Give ids and weights, or logits, or neither: then the checkpoint's gate makes the logits. Ids go before logits. */
typedef struct octet_call {
  size_t struct_size;
  int64_t tokens;      /* T, 0 or more */
  const octet_bf16* x; /* [T, H] */

  const void*
      topk_ids; /* I32 or I64 [T, k] or NULL; any values: what is outside 0 ... E-1 contributes nothing */
  int32_t topk_ids_dtype; /* OCTET_I32 or OCTET_I64; without topk_ids it is not looked at */
  const float*
      topk_weights; /* [T, k], with topk_ids; final: the router's scale is not applied to them */
  int64_t top_k;    /* k of topk_ids; 0: the layer's, and without topk_ids no other */

  const float* logits; /* [T, E] or NULL: final, no gate bias is added */
  const void*
      input_ids; /* I32 or I64 [T] or NULL; a router that knows images or has a table needs them for every row
                              (load with image_sentinel_lo = 0: no row is an image) */
  int32_t input_ids_dtype; /* OCTET_I32 or OCTET_I64 */

  const octet_bf16*
      shared; /* [T, H] or NULL: added in finalize (semantics 8); y of a tensor- or expert-parallel rank is a
                               part of a sum, so one rank gets it */

  /* Outputs, each NULL if not wanted; y or rows is. Without y the layer stops at the unfinalized rows. */
  octet_bf16* y; /* [T, H]: sum over the slots, ascending, in f32; one rounding (semantics 8) */
  int32_t* topk_ids_out;   /* [T, k] */
  float* topk_weights_out; /* [T, k] */
  octet_bf16* rows; /* [T k, H] unweighted; rows that `permuted` does not name are not written */
  int32_t*
      permuted; /* [T, k]: the slot's row in `rows`, or -1 (no expert of this rank); goes with rows */
  float* logits_out; /* [T, E]; not with topk_ids */

  /* Intermediates, each NULL if not wanted, rows in the order of `permuted`. */
  uint8_t* x_quant;  /* [T, H] e4m3, mxfp8 activations only, semantics 3 */
  uint8_t* x_scale;  /* [T, H/32] ue8m0 */
  uint8_t* h_values; /* [T k, I] e4m3, mxfp8 activations only, semantics 7 */
  uint8_t* h_scales; /* [T k, ceil(I/32)] ue8m0 */
  octet_bf16* h;     /* [T k, I], bf16 activations only, semantics 9 */
} octet_call;
#define OCTET_CALL_INIT                                                                       \
  {                                                                                           \
    sizeof(octet_call), 0, NULL, NULL, OCTET_I32, NULL, 0, NULL, NULL, OCTET_I32, NULL, NULL, \
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                            \
  }

/* Runs the layer: router, experts, finalize. `workspace`: workspace_bytes bytes, 64-byte aligned, any content, at least
 * octet_layer_workspace_bytes(T, k, executor's num_threads). `executor` NULL: the calling thread. Allocates nothing
 * (but for a layer on a CUDA device, and for the reference kernel, which also leaves the executor aside: it is there to compare with).
 * A row's bytes do not depend on the other rows, on the threads or on the run. Odd ids, NaN logits and odd scales are no
 * errors: semantics 1, 4 and 5 say what they mean. A refused call (a size, a missing tensor, a small workspace) writes nothing. */
OCTET_API octet_status octet_layer_run(const octet_layer* layer, const octet_call* call,
                                       void* workspace, size_t workspace_bytes,
                                       const octet_executor* executor);

/* ---- Layers on a CUDA device ------------------------------------------------------------------------------------------- */

/* A layer that was loaded or bound with the backend "cuda", on the device that was current then. octet_layer_run() takes host memory for it too: the
 * router runs on the host, tensors are copied, device memory is taken for the call, which waits for its end. */

/* *bytes: device memory that octet_layer_enqueue needs for `tokens` rows; `top_k` as for octet_layer_workspace_bytes.
 * Errors: OCTET_UNSUPPORTED for a layer that is not on a device. */
OCTET_API octet_status octet_layer_device_workspace_bytes(const octet_layer* layer, int64_t tokens,
                                                          int64_t top_k, size_t* bytes);

/* The call on `stream` (a cudaStream_t; NULL: the default stream), with the layer's device current. Every pointer of `call`, and `workspace`, is
 * device memory, the tensors 16-byte aligned, `workspace` 256-byte; they must live until the work is done, and a workspace
 * serves one stream. Its content before the first call is of no matter; between calls, of this and other layers and of any T, nobody else writes
 * to it, unless its first 256 bytes are made zeros afterwards. Give topk_ids with topk_weights, or logits where the router is dsv4; the gate's logits and logits_out are not
 * made here. Allocates nothing, waits for nothing, and may be captured into a graph. A row's bytes do not depend on the other rows; those of T > 8
 * are the bytes of its chunks of 8, but for experts_bf16_*_sm90 with T > 48, which goes to the kernel of SM80. Kernels of SM90 take at most 8 ids a row.
 * Errors, before anything is enqueued: OCTET_UNSUPPORTED (not on a device, logits for a router other than dsv4, more than 2^24 ids, more ids a row than the kernel takes),
 * OCTET_INVALID_ARGUMENT (also another device that is current); OCTET_DEVICE_ERROR (also one that an earlier kernel of the process left). */
OCTET_API octet_status octet_layer_enqueue(const octet_layer* layer, const octet_call* call,
                                           void* workspace, size_t workspace_bytes, void* stream);

/* Tensor parallelism's last step on `stream`: the ranks' y, added in rank order in binary32 and rounded once (semantics 8), so that every rank has
 * the same bytes. `comm`: the caller's ncclComm_t. `partials`: BF16 [ranks, count], device memory, of which each rank has written its own
 * part (y of octet_layer_enqueue = partials + rank * count); the others' parts come through NCCL, which the process must have or find as
 * libnccl.so.2. count: T * H, a multiple of 8. y: BF16 [count], device memory, may be a part of partials. Both 16-byte aligned; they and `comm` must live until the work is done. All ranks call it
 * alike; it may be captured into a graph.
 * Errors, before anything is enqueued: OCTET_INVALID_ARGUMENT (a pointer, the count), OCTET_UNSUPPORTED (no CUDA in this library, no NCCL);
 * OCTET_DEVICE_ERROR with NCCL's words. */
OCTET_API octet_status octet_enqueue_rank_sum(void* comm, octet_bf16* partials, int64_t count,
                                              octet_bf16* y, void* stream);

/* ---- The table of kernels -------------------------------------------------------------------------------------------- */

/* The kernels there are, best first, reference last; loading with one that this build or machine lacks says why. */
OCTET_API int octet_kernel_count(void);
/* The name of kernel `index`, static; NULL outside 0 ... octet_kernel_count() - 1. */
OCTET_API const char* octet_kernel_name(int index);

/* ---- Operations by name ---------------------------------------------------------------------------------------------- */

typedef struct octet_setting {
  const char* key;
  const char* value; /* as after `--set key=` of the command line */
} octet_setting;

typedef struct octet_tensors octet_tensors;

/* One operation of `octet op`: mxfp8_quantize, topk, route, front, gemm1, gemm2, finalize, prepare, unprepare, check_weights,
 * moe_sort, moe_permute, grouped_moe, dequantize, quantize_weight; names, dtypes, shapes and settings of each: docs/operations.md,
 * docs/semantics.md 3 ... 10. `inputs` and `settings` may be NULL with a count of 0; inputs that the operation does not name are ignored.
 * `backend`: as in octet_load_options. *out: the results, freed by octet_tensors_free.
 * Errors: OCTET_MISUSE (no such operation, setting or backend, with the nearest right name), OCTET_INVALID_ARGUMENT (a tensor or
 * value, by its name). */
OCTET_API octet_status octet_op(const char* name, const octet_tensor* inputs, size_t num_inputs,
                                const octet_setting* settings, size_t num_settings,
                                const char* backend, const octet_executor* executor,
                                octet_tensors** out);
OCTET_API void octet_tensors_free(octet_tensors* tensors);

/* How many results there are; 0 for NULL. */
OCTET_API size_t octet_tensors_count(const octet_tensors* tensors);
/* *out: result `index` in the order of names; its name and its 64-byte aligned data live as long as `tensors`. */
OCTET_API octet_status octet_tensors_get(const octet_tensors* tensors, size_t index,
                                         octet_tensor* out);

/* NOLINTEND(readability-identifier-naming, modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
