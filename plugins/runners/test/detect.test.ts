import t from 'tap'
import { chooseBackend, declaredBackend, findConflict } from '../machine/backends.js'
import type { ConflictCode, EngineOffer, Observation } from '../machine/backends.js'
import { conflicts } from '../declarations.js'
import type { Gpu } from '../../../kernel/index.js'
import type { Runtimes } from '../machine/runtimes.js'

const GiB = 1024 ** 3
const none: Runtimes = { cuda: false, webgpu: false, nvidiaDevice: false }
const cudaHere: Runtimes = { cuda: true, webgpu: false, nvidiaDevice: true }
const gpu = (vendor: Gpu['vendor'], vram: number | null): Gpu => ({
  vendor, name: `${vendor} card`, vramTotalBytes: vram, vramUsedBytes: null, utilizationRatio: null,
  powerWatts: null, temperatureCelsius: null
})
const nvidia = gpu('nvidia', 24 * GiB)
const H200 = 'CUDA0: NVIDIA H200 (143155 MiB, 142629 MiB free)'
const onnx = { name: 'onnx-tts', backends: ['cuda', 'webgpu', 'cpu'] }

interface Row {
  seen?: Partial<Observation>
  declared?: Record<string, string>
  engines?: EngineOffer[]
}

function check (name: string, row: Row, expected: Partial<Record<ConflictCode, RegExp>>): void {
  t.test(name, async (t) => {
    const { seen = {}, declared = {}, engines = [onnx] } = row
    const all = { gpus: [], runtimes: none, binaries: [], problems: [], declared, engines, ...seen }
    for (const code of Object.keys(conflicts) as ConflictCode[]) {
      const found = findConflict(code, all)
      if (expected[code] === undefined) t.equal(found, null, code)
      else t.match(found, expected[code], code)
    }
  })
}

check('a plain machine', {}, {})
check('a plain machine told so', { declared: { 'onnx-tts': 'cpu' } }, {})

check('runners without a sandbox', { seen: { sandboxProblem: 'they may do all' } },
  { runners_unconfined: /^they may do all$/ })
check('a GPU used through cuda', { seen: { gpus: [nvidia], runtimes: cudaHere } }, {})
check(
  'a GPU declared and used',
  { seen: { gpus: [nvidia], runtimes: cudaHere }, declared: { 'onnx-tts': 'cuda' } },
  {}
)
check(
  'a GPU without the libraries, as after an install: nobody set the engine up',
  { seen: { gpus: [nvidia], runtimes: { ...none, nvidiaDevice: true } } },
  {}
)
check(
  'a GPU and cpu declared',
  { seen: { gpus: [nvidia], runtimes: cudaHere }, declared: { 'onnx-tts': 'cpu' } },
  { gpu_serving_disabled: /cpu is declared/ }
)
check(
  'a GPU and a build for the CPU',
  {
    seen: { gpus: [nvidia], runtimes: cudaHere },
    engines: [{ name: 'llama-server', backends: ['cuda', 'cpu'], external: true, devices: [] }]
  },
  { gpu_serving_disabled: /engine llama-server runs on the CPU only: its program lists no GPU/ }
)
check(
  'a GPU and a build for it',
  {
    seen: { gpus: [nvidia], runtimes: cudaHere },
    engines: [{ name: 'llama-server', backends: ['cuda', 'cpu'], external: true, devices: [H200] }]
  },
  {}
)
check(
  'cuda declared without the libraries',
  { seen: { gpus: [nvidia] }, declared: { 'onnx-tts': 'cuda' } },
  { gpu_serving_disabled: /cuda is declared, but its libraries are not installed/ }
)
check(
  'an engine that has no GPU backend',
  { seen: { gpus: [nvidia] }, engines: [{ name: 'plain', backends: ['cpu'] }] },
  {}
)
const external = { name: 'llama-server', backends: ['cuda', 'cpu'], external: true }
check(
  'an external program with a GPU: its libraries are its own',
  { seen: { gpus: [nvidia], runtimes: { ...none, nvidiaDevice: true } }, engines: [external] },
  {}
)
check(
  'an external program that is to leave the GPU alone',
  {
    seen: { gpus: [nvidia], runtimes: { ...none, nvidiaDevice: true } },
    declared: { 'llama-server': 'cpu' },
    engines: [external]
  },
  { gpu_serving_disabled: /engine llama-server runs on the CPU only: cpu is declared/ }
)
check(
  'an external program and a GPU without a device file',
  { seen: { gpus: [nvidia] }, engines: [external] },
  { gpu_serving_disabled: /no GPU backend is declared$/ }
)
check(
  'a program that lists a GPU without a device file',
  { seen: { gpus: [nvidia] }, engines: [{ ...external, devices: [H200] }] },
  {}
)
check(
  'a program that is not here',
  { seen: { gpus: [nvidia] }, engines: [{ ...external, present: false }] },
  {}
)
check('no engine at all', { seen: { gpus: [nvidia] }, engines: [] }, {})
check(
  'two engines, one on the CPU',
  {
    seen: { gpus: [nvidia], runtimes: cudaHere },
    declared: { other: 'cpu' },
    engines: [onnx, { name: 'other', backends: ['cuda', 'cpu'] }]
  },
  { gpu_serving_disabled: /engine other/ }
)
check(
  'a large AMD GPU with webgpu at hand',
  {
    seen: { gpus: [gpu('amd', 16 * GiB)], runtimes: { ...none, webgpu: true } },
    declared: { 'onnx-tts': 'cpu' }
  },
  { gpu_serving_disabled: /amd card/ }
)
check(
  'the same, used',
  {
    seen: { gpus: [gpu('amd', 16 * GiB)], runtimes: { ...none, webgpu: true } },
    declared: { 'onnx-tts': 'webgpu' }
  },
  {}
)
check('a large AMD GPU without webgpu', { seen: { gpus: [gpu('amd', 16 * GiB)] } }, {})
check(
  'a small built-in GPU',
  { seen: { gpus: [gpu('amd', GiB / 2)], runtimes: { ...none, webgpu: true } } },
  {}
)
check(
  'an Intel GPU that shares memory',
  { seen: { gpus: [gpu('intel', null)], runtimes: { ...none, webgpu: true } } },
  {}
)
check(
  'an Apple GPU left unused',
  {
    seen: { gpus: [gpu('apple', null)], runtimes: { ...none, webgpu: true } }, declared: { 'onnx-tts': 'cpu' }
  },
  { gpu_serving_disabled: /apple card/ }
)

check(
  'a GPU of unknown memory',
  {
    seen: { gpus: [gpu('nvidia', null)], runtimes: cudaHere, problems: ['nvidia-smi: spawn ENOENT'] }
  },
  { gpu_detection_degraded: /nvidia card is unknown \(nvidia-smi: spawn ENOENT\)/ }
)
check(
  'a failed probe without a GPU is no conflict',
  { seen: { problems: ['nvidia-smi: timed out'] } },
  {}
)

check(
  'unusable binaries',
  {
    seen: {
      binaries: [
        { variable: 'SVC_LLAMA_SERVER_BIN', path: '/x', problem: 'does not exist' },
        { variable: 'SVC_OTHER_SERVER_BIN', path: '', problem: 'is empty' },
        { variable: 'SVC_GOOD_SERVER_BIN', path: '/bin/sh', problem: null }
      ]
    }
  },
  {
    invalid_engine_binary:
      /^SVC_LLAMA_SERVER_BIN: \/x does not exist; SVC_OTHER_SERVER_BIN: the path is empty$/
  }
)

check(
  'cuda declared on a machine without a GPU',
  { declared: { 'onnx-tts': 'cuda' } },
  { backend_override_conflict: /plugins\.runners\.backends\.onnx-tts is cuda, but no NVIDIA GPU is visible/ }
)
check(
  'cuda declared beside an AMD GPU',
  { seen: { gpus: [gpu('amd', GiB)] }, declared: { 'onnx-tts': 'cuda' } },
  { backend_override_conflict: /no NVIDIA GPU/ }
)
check(
  'webgpu declared without a GPU',
  { declared: { 'onnx-tts': 'webgpu' } },
  { backend_override_conflict: /no GPU is visible/ }
)
check(
  'declared for an engine that is not enabled',
  { declared: { ghost: 'cuda' } },
  { backend_override_conflict: /backends\.ghost/ }
)

interface Choice {
  offers?: string[]
  declared?: string
  runtimes?: Runtimes
}

function choose (
  name: string,
  { offers = onnx.backends, declared, runtimes = none }: Choice,
  expected: string | null
): void {
  t.test(`backend: ${name}`, async (t) => {
    const choice = chooseBackend({ engine: 'onnx-tts', offers, declared, runtimes })
    t.equal(choice.backend, expected)
    if (choice.backend === null) {
      t.match(choice.problem, /onnx-tts/)
      t.match(choice.remedy, /plugins\.runners\.backends\.onnx-tts/)
    }
  })
}
choose('the CPU where nothing else is found', {}, 'cpu')
choose('cuda where GPU and libraries are found', { runtimes: cudaHere }, 'cuda')
choose('not cuda without a GPU', { runtimes: { ...cudaHere, nvidiaDevice: false } }, 'cpu')
choose('not webgpu by itself', { runtimes: { ...none, webgpu: true } }, 'cpu')
choose('a declared one is honoured unseen', { declared: 'cuda' }, 'cuda')
choose('a declared one beats what is found', { declared: 'cpu', runtimes: cudaHere }, 'cpu')
choose('one the engine does not offer', { offers: ['cpu'], declared: 'cuda' }, null)
t.test('an engine says why it offers no other backend', async (t) => {
  const why = { engine: 'e', offers: ['cpu'], why: 'so it is' }
  const problem = 'plugins.runners.backends.e is cuda, but engine e supports cpu: so it is'
  t.match(chooseBackend({ ...why, declared: 'cuda', runtimes: none }), { backend: null, problem })
})

choose('an engine for GPUs only', { offers: ['cuda'] }, null)

t.test('a declaration is read by own key only', async (t) => {
  t.equal(declaredBackend({ a: 'cuda' }, 'a'), 'cuda')
  t.equal(declaredBackend({}, 'constructor'), undefined)
})
