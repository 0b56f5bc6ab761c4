/**
 * The C API of the onnxruntime library that onnxruntime-node ships, through koffi: as much of it as a
 * decoder's step needs. Measured against the official API only; svc does not use it.
 */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const VERSION = 17
/** Places in the table of functions, which only grows from version to version. */
const PLACES = {
  GetErrorMessage: 2, CreateEnv: 3, CreateSession: 7, Run: 9, CreateSessionOptions: 10, DisableMemPattern: 17,
  SetIntraOpNumThreads: 24, CreateRunOptions: 39, CreateTensorWithDataAsOrtValue: 49,
  GetTensorMutableData: 51, CreateCpuMemoryInfo: 69, ReleaseStatus: 93, ReleaseValue: 96,
  AddSessionConfigEntry: 130
}
const SIGNATURES = {
  GetErrorMessage: 'const char* f(void*)', ReleaseStatus: 'void f(void*)', ReleaseValue: 'void f(void*)',
  CreateEnv: 'void* f(int, const char*, _Out_ void**)', CreateSessionOptions: 'void* f(_Out_ void**)',
  CreateRunOptions: 'void* f(_Out_ void**)', SetIntraOpNumThreads: 'void* f(void*, int)',
  DisableMemPattern: 'void* f(void*)', AddSessionConfigEntry: 'void* f(void*, const char*, const char*)',
  CreateSession: 'void* f(void*, const char*, void*, _Out_ void**)',
  CreateCpuMemoryInfo: 'void* f(int, int, _Out_ void**)',
  CreateTensorWithDataAsOrtValue:
    'void* f(void*, void*, size_t, const int64_t*, size_t, int, _Out_ void**)',
  GetTensorMutableData: 'void* f(void*, _Out_ void**)',
  Run: 'void* f(void*, void*, const char**, void**, size_t, const char**, size_t, _Inout_ void**)'
}
const TYPES = { float32: 1, int64: 7 }

const require = createRequire(import.meta.url)

/** The library must never be unloaded: its functions are called by address. */
let library

function functionsOf (koffi) {
  const folder = join(dirname(require.resolve('onnxruntime-node/package.json')),
    `bin/napi-v6/${process.platform}/${process.arch}`)
  library ??= koffi.load(join(folder, 'libonnxruntime.so.1'))
  const at = (table, place, signature, name) => koffi.decode(koffi.decode(table, 8 * place, 'void*'),
    koffi.proto(signature.replace(' f(', ` ${name}(`)))
  const base = library.func('void* OrtGetApiBase()')()
  const table = at(base, 0, 'void* f(uint32_t)', 'GetApi')(VERSION)
  return Object.fromEntries(Object.entries(PLACES).map(([name, place]) =>
    [name, at(table, place, SIGNATURES[name], `Ort${name}`)]))
}

/** A session of the C API. Throws where koffi is not installed. */
export function openNative (file, threads) {
  const koffi = require('koffi')
  const api = functionsOf(koffi)
  const check = (status) => {
    if (status === null) return
    const message = api.GetErrorMessage(status)
    api.ReleaseStatus(status)
    throw new Error(message)
  }
  const made = (name, ...values) => {
    const out = [null]
    check(api[name](...values, out))
    return out[0]
  }
  const options = made('CreateSessionOptions')
  check(api.SetIntraOpNumThreads(options, threads))
  check(api.DisableMemPattern(options))
  check(api.AddSessionConfigEntry(options, 'session.intra_op.allow_spinning', '0'))
  const session = made('CreateSession', made('CreateEnv', 3, 'bench'), file, options)
  const [memory, runOptions] = [made('CreateCpuMemoryInfo', 1, 0), made('CreateRunOptions')]
  const run = promisify(api.Run.async)
  /** What native memory is used of: collecting it under a tensor ends the process. */
  const held = new Map()
  return {
    /** A tensor on the memory of `data`. */
    tensor (type, data, dims) {
      // V8 keeps small arrays in its heap and moves them, until their buffer is asked for.
      void data.buffer
      const value = made('CreateTensorWithDataAsOrtValue', memory, data, data.byteLength,
        BigInt64Array.from(dims, BigInt), dims.length, TYPES[type])
      held.set(value, data)
      return value
    },
    release (value) {
      api.ReleaseValue(value)
      held.delete(value)
    },
    /** A copy of the first numbers of a tensor. */
    floats (value, count) {
      return Float32Array.from(new Float32Array(koffi.view(made('GetTensorMutableData', value), 4 * count)))
    },
    /** `into` has a tensor per output, or null where one is to be made. Answers the outputs. */
    async run (inputs, outputs, into) {
      const names = Object.keys(inputs)
      const values = [...into]
      check(await run(session, runOptions, names, Object.values(inputs), names.length,
        outputs, outputs.length, values))
      return values
    }
  }
}
