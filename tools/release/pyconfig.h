// What the public headers of CPython 3.11 and later ask of a 64-bit system, for every system that wheels are made for:
// CPython's own file is made by its build, once for each. A test reads Python.h with both.
#pragma once

#define HAVE_LONG_LONG 1
#define HAVE_SSIZE_T 1
#define HAVE_SYS_STAT_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_WCHAR_H 1
#define SIZEOF_INT 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_VOID_P 8
#define WITH_DOC_STRINGS 1
#define WITH_MIMALLOC 1
#define WITH_PYMALLOC 1
#define WITH_THREAD 1

#ifdef _WIN32
#define MS_WIN32 1
#define MS_WIN64 1
#define MS_WINDOWS 1
#define NT_THREADS 1
#define HAVE_DECLSPEC_DLL 1  // functions and data are imported
#define Py_ENABLE_SHARED 1
#define SIZEOF_LONG 4
#define SIZEOF_WCHAR_T 2
#define ALIGNOF_MAX_ALIGN_T 8
#else
#define HAVE_CLOCK_GETTIME 1
#define HAVE_FORK 1
#define HAVE_LANGINFO_H 1
#define HAVE_PTHREAD_H 1
#define HAVE_SYS_TIME_H 1
#define SIZEOF_LONG 8
#define SIZEOF_WCHAR_T 4
#define ALIGNOF_MAX_ALIGN_T 16
#endif
