/* The monitor's memory: one heap for all threads. Every thread of a web server would otherwise keep a heap of its
 * own, and what a scrape of a megabyte leaves there is never given back. */
#include <malloc.h>

#include "reader.h"

void hc_one_heap(void)
{
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 1);
#endif
}
