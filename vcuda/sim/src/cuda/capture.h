/* Stream capture: work becomes nodes of a graph. Other streams join by waiting for an event of a capturing stream. */
#ifndef TESSERA_SIM_CAPTURE_H
#define TESSERA_SIM_CAPTURE_H

#include "graph.h"

CUresult capture_work(struct CUstream_st *stream, const struct work *work);
CUresult capture_record(struct CUstream_st *stream, CUevent event);
CUresult capture_wait(struct CUstream_st *stream, CUevent event);

/* The graph that the stream's work goes to. */
CUgraph capture_graph(const struct CUstream_st *stream);

/* The capture in which the event was last recorded, if that still goes on. */
struct capture *capture_of(const struct CUevent_st *event);
/* A call that no capture allows was made: the capture is invalid from now on. */
CUresult capture_break(struct CUstream_st *stream);
/* The stream goes away. */
void capture_abandon(struct CUstream_st *stream);

#endif
