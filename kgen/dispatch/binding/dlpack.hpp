// DLPack's exchange table, as far as it is used here (dlpack.h of version 1): how torch hands out tensors
// without Python.
#pragma once

#include <cstdint>

namespace kgen {

struct DlDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DlTensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  DlDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

struct DlExchange {
  uint32_t major;
  uint32_t minor;
  void* previous;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  int (*tensor_from_object)(void* object, DlTensor* out);
  void* current_stream;
};

constexpr uint32_t kDlMajor = 1;

}  // namespace kgen
