/* Opening the CUDA driver library at run time. */
#ifndef LATENTBEAM_LOADER_H
#define LATENTBEAM_LOADER_H

#include <stddef.h>

/* What lb_driver_open ended with. */
enum {
	LB_OPEN_DONE,
	LB_OPEN_NO_LIBRARY, /* message: what the system's loader says */
	LB_OPEN_NO_SYMBOL,  /* message: the entry point that is missing */
	LB_OPEN_FAILED,     /* code: what cuInit or cuDriverGetVersion answered */
	LB_OPEN_TOO_OLD,    /* code: the version, as 1000 major + 10 minor */
};

typedef struct {
	int outcome, code;
	int version;      /* newest CUDA the driver can do, as 1000 major + 10 minor */
	int bound, total; /* entry points found, and asked for */
	char message[512];
} lb_opened;

/* lb_driver_open opens the library at path, starts it and fills the slots. Not to be called twice at a time. */
void lb_driver_open(const char *path, int least_version, lb_opened *result);

/* lb_driver_symbol is an entry point of the opened library, or null. */
void *lb_driver_symbol(const char *name);

#endif
