// Annotations of locks for clang, so that it rejects code that reads a member without its lock
// (-Wthread-safety, run by tests/unit/thread_safety_test.py). For gcc they are empty. The macros
// are named as in clang's documentation of its thread safety analysis.
//
// The analysis looks at one function at a time. A lambda is a separate function and states its
// own REQUIRES. Members that are constant after boot, atomic, or guarded by another kind of lock
// have no annotation.
#pragma once

#ifdef __clang__
#define RDMALLOC_ANALYSIS(attribute) __attribute__((attribute))
#else
#define RDMALLOC_ANALYSIS(attribute)
#endif

// Classes: one is a lock; one holds a lock while it lives.
#define CAPABILITY(kind) RDMALLOC_ANALYSIS(capability(kind))
#define SCOPED_CAPABILITY RDMALLOC_ANALYSIS(scoped_lockable)

// Members: read and written under this lock.
#define GUARDED_BY(lock) RDMALLOC_ANALYSIS(guarded_by(lock))

// Locks: taken after these, when both are held (-Wthread-safety-beta).
#define ACQUIRED_AFTER(...) RDMALLOC_ANALYSIS(acquired_after(__VA_ARGS__))

// Functions, in this order: the caller holds these locks before and after the call, though they may
// be released meanwhile; the caller does not hold them; the function acquires them; the function
// releases them; the function returns this lock.
#define REQUIRES(...) RDMALLOC_ANALYSIS(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) RDMALLOC_ANALYSIS(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) RDMALLOC_ANALYSIS(acquire_capability(__VA_ARGS__))
#define RELEASE(...) RDMALLOC_ANALYSIS(release_capability(__VA_ARGS__))
#define RETURN_CAPABILITY(lock) RDMALLOC_ANALYSIS(lock_returned(lock))

// Functions whose body is not looked at; the reason stands beside it.
#define NO_THREAD_SAFETY_ANALYSIS RDMALLOC_ANALYSIS(no_thread_safety_analysis)
