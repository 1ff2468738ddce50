#include "attributes.h"

#include <stddef.h>

#define A(name) CU_DEVICE_ATTRIBUTE_##name

/* The same on every card since compute capability 7.5 (CUDA C++ programming guide, technical specifications). */
static const struct {
  CUdevice_attribute attribute;
  int value;
} constants[] = {
    {A(MAX_THREADS_PER_BLOCK), 1024}, {A(MAX_BLOCK_DIM_X), 1024}, {A(MAX_BLOCK_DIM_Y), 1024}, {A(MAX_BLOCK_DIM_Z), 64},
    {A(MAX_GRID_DIM_X), 2147483647}, {A(MAX_GRID_DIM_Y), 65535}, {A(MAX_GRID_DIM_Z), 65535},
    {A(TOTAL_CONSTANT_MEMORY), 65536}, {A(WARP_SIZE), 32}, {A(MAX_PITCH), 2147483647}, {A(MAX_REGISTERS_PER_BLOCK), 65536},
    {A(TEXTURE_ALIGNMENT), 512}, {A(GPU_OVERLAP), 1}, {A(CAN_MAP_HOST_MEMORY), 1}, {A(SURFACE_ALIGNMENT), 512},
    {A(CONCURRENT_KERNELS), 1}, {A(UNIFIED_ADDRESSING), 1}, {A(TEXTURE_PITCH_ALIGNMENT), 32},
    {A(MAXIMUM_TEXTURE1D_WIDTH), 131072}, {A(MAXIMUM_TEXTURE2D_WIDTH), 131072}, {A(MAXIMUM_TEXTURE2D_HEIGHT), 65536},
    {A(MAXIMUM_TEXTURE3D_WIDTH), 16384}, {A(MAXIMUM_TEXTURE3D_HEIGHT), 16384}, {A(MAXIMUM_TEXTURE3D_DEPTH), 16384},
    {A(MAXIMUM_TEXTURE2D_LAYERED_WIDTH), 32768}, {A(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT), 32768},
    {A(MAXIMUM_TEXTURE2D_LAYERED_LAYERS), 2048}, {A(MAXIMUM_TEXTURE1D_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_TEXTURE1D_LAYERED_LAYERS), 2048}, {A(CAN_TEX2D_GATHER), 1}, {A(MAXIMUM_TEXTURE2D_GATHER_WIDTH), 32768},
    {A(MAXIMUM_TEXTURE2D_GATHER_HEIGHT), 32768}, {A(MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE), 8192},
    {A(MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE), 8192}, {A(MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE), 32768},
    {A(MAXIMUM_TEXTURECUBEMAP_WIDTH), 32768}, {A(MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS), 2046}, {A(MAXIMUM_SURFACE1D_WIDTH), 32768},
    {A(MAXIMUM_SURFACE2D_WIDTH), 131072}, {A(MAXIMUM_SURFACE2D_HEIGHT), 65536}, {A(MAXIMUM_SURFACE3D_WIDTH), 16384},
    {A(MAXIMUM_SURFACE3D_HEIGHT), 16384}, {A(MAXIMUM_SURFACE3D_DEPTH), 16384}, {A(MAXIMUM_SURFACE1D_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_SURFACE1D_LAYERED_LAYERS), 2048}, {A(MAXIMUM_SURFACE2D_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_SURFACE2D_LAYERED_HEIGHT), 32768}, {A(MAXIMUM_SURFACE2D_LAYERED_LAYERS), 2048},
    {A(MAXIMUM_SURFACECUBEMAP_WIDTH), 32768}, {A(MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS), 2046}, {A(MAXIMUM_TEXTURE1D_LINEAR_WIDTH), 268435456},
    {A(MAXIMUM_TEXTURE2D_LINEAR_WIDTH), 131072}, {A(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT), 65000},
    {A(MAXIMUM_TEXTURE2D_LINEAR_PITCH), 2097120}, {A(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH), 32768},
    {A(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT), 32768}, {A(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH), 32768},
    {A(STREAM_PRIORITIES_SUPPORTED), 1}, {A(GLOBAL_L1_CACHE_SUPPORTED), 1}, {A(LOCAL_L1_CACHE_SUPPORTED), 1},
    {A(MANAGED_MEMORY), 1}, {A(CONCURRENT_MANAGED_ACCESS), 1}, {A(COMPUTE_PREEMPTION_SUPPORTED), 1},
    {A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM), 1}, {A(COOPERATIVE_LAUNCH), 1}, {A(HOST_REGISTER_SUPPORTED), 1},
    {A(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1}, {A(MEMORY_POOLS_SUPPORTED), 1}, {A(UNIFIED_FUNCTION_POINTERS), 1},
    {A(HOST_NUMA_ID), 0}, {A(NUMA_ID), -1},
};

/* Double precision at half the rate on the compute cards, at 1/32 or 1/64 on the others. */
static int single_to_double(const struct sim_card_model *m) {
  if (m->cc_minor == 0 && m->cc_major >= 8) return 2;
  return m->cc_major == 7 ? 32 : 64;
}

static int modelled(const struct sim_card *card, CUdevice_attribute attribute) {
  const struct sim_card_model *m = &card->model;
  switch (attribute) {
    case A(MULTIPROCESSOR_COUNT): return (int)m->sms;
    case A(COMPUTE_CAPABILITY_MAJOR): return (int)m->cc_major;
    case A(COMPUTE_CAPABILITY_MINOR): return (int)m->cc_minor;
    case A(MAX_THREADS_PER_MULTIPROCESSOR): return (int)m->threads_per_sm;
    case A(MAX_BLOCKS_PER_MULTIPROCESSOR): return (int)m->blocks_per_sm;
    case A(MAX_REGISTERS_PER_MULTIPROCESSOR): return (int)m->regs_per_sm;
    case A(MAX_SHARED_MEMORY_PER_BLOCK): return (int)m->shared_per_block;
    case A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN): return (int)m->shared_optin;
    case A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR): return (int)m->shared_per_sm;
    case A(RESERVED_SHARED_MEMORY_PER_BLOCK): return m->cc_major >= 8 ? 1024 : 0;
    case A(CLOCK_RATE): return (int)m->sm_clock_mhz * 1000;
    case A(MEMORY_CLOCK_RATE): return (int)m->mem_clock_mhz * 1000;
    case A(GLOBAL_MEMORY_BUS_WIDTH): return (int)m->bus_width;
    case A(L2_CACHE_SIZE): return (int)m->l2;
    case A(MAX_PERSISTING_L2_CACHE_SIZE): return m->cc_major >= 8 ? (int)(m->l2 / 16 * 11) : 0;
    case A(MAX_ACCESS_POLICY_WINDOW_SIZE): return m->cc_major >= 8 ? 134213632 : 0;
    case A(ASYNC_ENGINE_COUNT): return (int)m->copy_engines;
    case A(ECC_ENABLED): return (int)m->ecc;
    case A(PCI_BUS_ID): return (int)sim_pci_bus(card);
    case A(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO): return single_to_double(m);
    case A(CLUSTER_LAUNCH): return m->cc_major >= 9;
    case A(MEM_SYNC_DOMAIN_COUNT): return m->cc_major >= 9 ? 4 : 1;
    case A(TENSOR_MAP_ACCESS_SUPPORTED): return m->cc_major >= 9;
    case A(GPU_PCI_DEVICE_ID): return (int)m->device_id;
    default: return 0;
  }
}

int device_attribute(const struct sim_card *card, CUdevice_attribute attribute) {
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
    if (constants[i].attribute == attribute) return constants[i].value;
  }
  return modelled(card, attribute);
}
