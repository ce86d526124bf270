/* Lets calls on the temporary files of steps fail: FAIL_CALL (write, fsync or close) number FAIL_FROM (from 1) and
   the FAIL_TIMES - 1 after it, with FAIL_ERRNO. Loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static long calls;

static int fails(const char *call, int descriptor)
{
    const char *wanted = getenv("FAIL_CALL");
    char link[64], path[4096];
    ssize_t length;
    long from, times;

    if (!wanted || strcmp(wanted, call))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    if (!strstr(path, ".jsonl.tmp"))
        return 0;
    from = atol(getenv("FAIL_FROM"));
    times = atol(getenv("FAIL_TIMES"));
    calls++;
    if (calls < from || calls >= from + times)
        return 0;
    errno = atoi(getenv("FAIL_ERRNO"));
    return 1;
}

ssize_t writev(int descriptor, const struct iovec *pieces, int count)
{
    ssize_t (*real)(int, const struct iovec *, int) = dlsym(RTLD_NEXT, "writev");
    return fails("write", descriptor) ? -1 : real(descriptor, pieces, count);
}

int fsync(int descriptor)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    return fails("fsync", descriptor) ? -1 : real(descriptor);
}

int close(int descriptor)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "close");
    int failed = fails("close", descriptor), number = errno;
    int result = real(descriptor);

    if (!failed)
        return result;
    errno = number;
    return -1;
}
