/* The library about itself. */
#include "core.h"

#ifndef CORE_DIGEST
#define CORE_DIGEST "unknown"
#endif

/* A digest of the sources that it was compiled from. */
EXPORT const char *core_digest(void) { return CORE_DIGEST; }

/* Whether this processor and system have the instructions of x86-64-v3. */
EXPORT int core_has_v3(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}
