/* Imitates Windows' bcryptprimitives.dll, which wine 8 lacks and every Rust program needs: ProcessPrng fills a buffer with
 * random bytes and always succeeds, as Microsoft documents it. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length); /* RtlGenRandom of advapi32.dll */

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length)
{
    while (length > 0) {
        ULONG part = length < 0x10000 ? (ULONG)length : 0x10000;
        if (!SystemFunction036(buffer, part))
            return FALSE;
        buffer += part;
        length -= part;
    }
    return TRUE;
}
