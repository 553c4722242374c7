// The table in the namespace of the chosen level: every level has a table of the same name.
#pragma once

#include "cpu/kernels/kernel.h"

#ifdef DMLGRAPH_X86_LEVELS
#define DMLGRAPH_OF_CHOSEN_LEVEL(table)                  \
    (chosen_level() == Level::avx512 ? avx512::table()   \
     : chosen_level() == Level::avx2 ? avx2::table()     \
                                     : baseline::table())
#else
#define DMLGRAPH_OF_CHOSEN_LEVEL(table) baseline::table()
#endif
