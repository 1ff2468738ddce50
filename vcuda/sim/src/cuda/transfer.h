/* Moving bytes: the data at once (or in stream order behind a function of the program), the time on the card's engines. */
#ifndef TESSERA_SIM_TRANSFER_H
#define TESSERA_SIM_TRANSFER_H

#include "driver.h"

CUresult memory_error(int error);

#endif
