// flashc.h: compile tile programs and launch them on NVIDIA GPUs. Link with libflashc_capi.
//
// Every function that returns int32_t gives 0 for success. Otherwise the thread's error is set: a positive
// status is the number of its code (307 is L0307, see `flashc explain L0307`), -1 a bug in flashc, -2 a null
// or malformed argument. A result pointer must not be null; on failure its target is null or untouched.
//
// All functions may be called from any thread. A kernel may be launched from several threads at once. The
// calling thread's current CUDA context is left as it was; the device's primary context is used, the one of
// the CUDA runtime and of PyTorch.
#ifndef FLASHC_H
#define FLASHC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FLASHC_ABI 1

// A compiled program.
typedef struct flashc_artifact flashc_artifact;
// A program loaded on a GPU.
typedef struct flashc_kernel flashc_kernel;

// Element types.
enum {
    FLASHC_BOOL = 0,
    FLASHC_I8 = 1,
    FLASHC_I16 = 2,
    FLASHC_I32 = 3,
    FLASHC_I64 = 4,
    FLASHC_U8 = 5,
    FLASHC_U16 = 6,
    FLASHC_U32 = 7,
    FLASHC_U64 = 8,
    FLASHC_F16 = 9,
    FLASHC_BF16 = 10,
    FLASHC_F32 = 11,
    FLASHC_F64 = 12,
    FLASHC_E4M3 = 13,
    FLASHC_E5M2 = 14
};

// A tensor argument. Read during the call only; its memory must stay until the kernel has finished.
typedef struct {
    const char *name;       // null: the next one in the order of declaration
    uint64_t data;          // device address of element 0
    int32_t dtype;          // FLASHC_BF16 and so on
    int32_t device;         // number of the GPU, -1 for host memory (an error)
    uint32_t rank;          // number of axes
    uint32_t reserved;      // 0
    const int64_t *shape;   // rank lengths
    const int64_t *strides; // rank strides, in elements
} flashc_tensor; // 48 bytes

// A scalar argument.
typedef struct {
    const char *name;  // null: the next one in the order of declaration
    int32_t kind;      // 0 bool, 1 signed integer, 2 unsigned integer, 3 float
    uint32_t reserved; // 0
    int64_t integer;   // value of kinds 0, 1 and 2 (unsigned: its bits)
    double real;       // value of kind 3
} flashc_scalar; // 32 bytes

// What a launch did.
typedef struct {
    uint32_t variant;  // index of the variant of the code
    uint32_t grid[3];  // programs along each axis
    uint32_t launched; // 0 if there was nothing to do (an empty grid or only empty outputs)
    uint32_t rejected; // number of better variants that could not run; flashc_plan says why
    uint32_t notes;    // number of suspicions about the arguments; flashc_plan has them
} flashc_report; // 28 bytes

// What a variant takes.
typedef struct {
    uint32_t registers;      // a thread
    uint32_t local_bytes;    // a thread: spills and stack
    uint32_t static_shared;  // a CTA
    uint32_t dynamic_shared; // a CTA
    uint32_t max_threads;    // a CTA can have with so many registers
} flashc_resources; // 20 bytes

// FLASHC_ABI of the library: compare before anything else.
uint32_t flashc_abi_version(void);

// The calling thread's last error, for a person (diagnostics with source lines, if a program does not
// compile), and its code. Valid until the thread's next call that fails. Empty if there was none.
const char *flashc_error_message(void);
const char *flashc_error_code(void);

// Compiles a program. `name` is shown in diagnostics. `options` is JSON or null:
//   {"kernel": "attention_fwd", "set": {"D": "128", "T": "bf16"}, "target": "sm_90a"}
// all of it optional.
int32_t flashc_compile(const char *name, const uint8_t *source, size_t length, const char *options,
                       flashc_artifact **out);

// Reads an artifact from JSON, as `flashc` or flashc_artifact_json wrote it.
int32_t flashc_artifact_read(const char *json, flashc_artifact **out);
// The JSON form; free it with flashc_string_free.
int32_t flashc_artifact_json(const flashc_artifact *artifact, char **out);

// Loads on a GPU. The artifact may be freed afterwards. `options` is JSON or null:
//   {"cache": "/dir", "ptxas": "/path/to/ptxas", "preload_all": true}
// cache: directory for machine code, "" for none, absent for the user's. ptxas: "" looks for it, absent lets
// the driver compile. preload_all: do not load any variant at a launch (needed for stream capture).
int32_t flashc_load(const flashc_artifact *artifact, int32_t device, const char *options,
                    flashc_kernel **out);

// What variant number `variant` takes; loads it if need be.
int32_t flashc_kernel_resources(const flashc_kernel *kernel, uint32_t variant, flashc_resources *out);

// Checks the arguments, then enqueues the kernel on a CUstream of the GPU (0: the legacy default stream) and
// returns without waiting. `report` may be null.
int32_t flashc_launch(const flashc_kernel *kernel, const flashc_tensor *tensors, size_t tensor_count,
                      const flashc_scalar *scalars, size_t scalar_count, uint64_t stream,
                      flashc_report *report);

// What flashc_launch would do, as JSON, without doing it: {"variant": "fallback", "grid": [3, 6, 2], "empty":
// false, "dims": {"SQ": 300}, "rejected": [{"variant": "tma", "reason": "..."}], "notes": []}.
// Free it with flashc_string_free.
int32_t flashc_plan(const flashc_kernel *kernel, const flashc_tensor *tensors, size_t tensor_count,
                    const flashc_scalar *scalars, size_t scalar_count, char **out);

// Each frees what it is given; null is ignored. Freeing a kernel waits for the GPU.
void flashc_artifact_free(flashc_artifact *artifact);
void flashc_kernel_free(flashc_kernel *kernel);
void flashc_string_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
