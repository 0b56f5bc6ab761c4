import { join } from 'node:path'
import t from 'tap'
import { cudaHidden, mergeGpus, vendorOf } from '../gpu-facts.js'
import { probeGpus, probeRuntimes, systemProbe } from '../gpu-probe.js'
import type { ProbeIo } from '../gpu-probe.js'
import { machine } from './samples.js'

const MIB = 1024 * 1024
const H200 = 'NVIDIA H200, 143771\n'

/** Folders and files by path; a folder lists the names right below it. */
function tree (files: Record<string, string>): Pick<ProbeIo, 'list' | 'read' | 'hasLibrary'> {
  const paths = Object.keys(files)
  return {
    list: async (folder) => [
      ...new Set(
        paths
          .filter((path) => path.startsWith(`${folder}/`))
          .map((path) => path.slice(folder.length + 1).split('/')[0] ?? '')
      )
    ],
    read: async (path) => files[path] ?? null,
    hasLibrary: async (path) => path in files
  }
}

function check (name: string, io: Partial<ProbeIo>, expected: object[], problems: RegExp[] = []): void {
  t.test(name, async (t) => {
    const raw = await probeGpus(machine(io))
    t.match(mergeGpus(raw), expected)
    t.equal(mergeGpus(raw).length, expected.length)
    t.equal(raw.problems.length, problems.length)
    problems.forEach((problem, index) => { t.match(raw.problems[index], problem) })
  })
}

const device = { '/dev/nvidia0': '', '/dev/nvidiactl': '' }
const driver = { '/proc/driver/nvidia/gpus/0000:01:00.0/information': 'Model: \t\t NVIDIA H200\nIRQ: 1' }

check('nothing', {}, [])
check(
  'a container with the NVIDIA tools but no lspci',
  { ...tree({ ...device, ...driver }), nvidiaSmi: async () => H200 },
  [{ vendor: 'nvidia', name: 'NVIDIA H200', vramTotalBytes: 143_771 * MIB }]
)
check('two NVIDIA GPUs', { ...tree(device), nvidiaSmi: async () => `${H200}NVIDIA, strange name, 100\n` }, [
  { name: 'NVIDIA H200' },
  { name: 'NVIDIA, strange name', vramTotalBytes: 100 * MIB }
])
check(
  'a driver without its tool',
  { ...tree({ ...device, ...driver }) },
  [{ vendor: 'nvidia', name: 'NVIDIA H200', vramTotalBytes: null, unified: false }],
  [/^nvidia-smi: no nvidia-smi here/]
)
check(
  'a device file and nothing else',
  tree(device),
  [{ vendor: 'nvidia', name: 'NVIDIA GPU', vramTotalBytes: null }],
  [/nvidia-smi/]
)
check(
  'a tool that answers without memory',
  { ...tree(device), nvidiaSmi: async () => 'NVIDIA GB10, [N/A]\n' },
  [{ name: 'NVIDIA GB10', vramTotalBytes: null }]
)
check(
  'hidden by CUDA_VISIBLE_DEVICES',
  { ...tree(device), env: { CUDA_VISIBLE_DEVICES: '-1' }, nvidiaSmi: async () => H200 },
  []
)
check('a card without its driver', tree({ '/sys/class/drm/card0/device/vendor': '0x10de' }), [
  { vendor: 'nvidia', vramTotalBytes: null }
])
check(
  'an AMD card with its memory',
  tree({
    '/sys/class/drm/card1/device/vendor': '0x1002',
    '/sys/class/drm/card1/device/mem_info_vram_total': '17163091968',
    '/sys/class/drm/card1-HDMI-A-1/status': 'connected'
  }),
  [{ vendor: 'amd', vramTotalBytes: 17_163_091_968, unified: false }]
)
check('a built-in Intel GPU', tree({ '/sys/class/drm/card0/device/vendor': '0x8086' }), [
  { vendor: 'intel', unified: true }
])
check(
  "a server's display chip is no GPU",
  {
    ...tree({ '/sys/class/drm/card0/device/vendor': '0x1a03' }),
    controllers: async () => [{ vendor: 'ASPEED Technology', model: 'AST' }]
  },
  []
)
check(
  'seen by the package alone',
  { controllers: async () => [{ vendor: 'NVIDIA Corporation', model: 'GA102', memoryTotal: 24_576 }] },
  [{ vendor: 'nvidia', name: 'GA102', vramTotalBytes: 24_576 * MIB }]
)
check(
  'the PCI window on Linux is not the memory',
  { controllers: async () => [{ vendor: 'NVIDIA Corporation', model: 'GA102', vram: 256 }] },
  [{ vendor: 'nvidia', vramTotalBytes: null }]
)
check(
  'a Mac',
  {
    platform: 'darwin',
    arch: 'arm64',
    controllers: async () => [{ vendor: 'Apple', model: 'Apple M4', vram: null }]
  },
  [{ vendor: 'apple', name: 'Apple M4', unified: true, vramTotalBytes: null }]
)
check(
  'a package that fails',
  {
    controllers: async () => { throw new Error('timed out\nmore') }
  },
  [],
  [/^systeminformation: timed out$/]
)

function runtimes (
  name: string,
  io: Partial<ProbeIo>,
  expected: { cuda: boolean, webgpu: boolean, nvidiaDevice: boolean }
): void {
  t.test(`runtimes: ${name}`, async (t) => { t.same(await probeRuntimes(machine(io)), expected) })
}
runtimes('none', {}, { cuda: false, webgpu: false, nvidiaDevice: false })
runtimes('cuda libraries and a device', tree({ ...device, '/ort/libonnxruntime_providers_cuda.so': '' }), {
  cuda: true,
  webgpu: false,
  nvidiaDevice: true
})
runtimes(
  'a hidden device',
  { ...tree(device), env: { CUDA_VISIBLE_DEVICES: '' } },
  { cuda: false, webgpu: false, nvidiaDevice: false }
)
runtimes('webgpu with Vulkan', tree({ '/usr/lib/x86_64-linux-gnu/libvulkan.so.1': '' }), {
  cuda: false,
  webgpu: true,
  nvidiaDevice: false
})
runtimes(
  'webgpu on a Mac',
  { platform: 'darwin', arch: 'arm64' },
  { cuda: false, webgpu: true, nvidiaDevice: false }
)
runtimes(
  'no webgpu on Linux arm64',
  { ...tree({ '/usr/lib/libvulkan.so.1': '' }), arch: 'arm64' },
  { cuda: false, webgpu: false, nvidiaDevice: false }
)
runtimes(
  'no ONNX runtime at all',
  { ...tree(device), platform: 'darwin', arch: 'arm64', runtimeFolder: () => null },
  { cuda: false, webgpu: false, nvidiaDevice: true }
)

t.test('names of makers', async (t) => {
  t.equal(vendorOf('Advanced Micro Devices, Inc. [AMD/ATI]'), 'amd')
  t.equal(vendorOf('Intel Corporation'), 'intel')
  t.equal(vendorOf('Red Hat, Inc. Virtio'), 'other')
  t.equal(vendorOf('Spatial'), 'other', 'a word that only contains a name')
})

t.test('CUDA_VISIBLE_DEVICES', async (t) => {
  for (const [value, hidden] of [
    [undefined, false],
    ['', true],
    ['-1', true],
    ['0', false],
    ['GPU-abc', false]
  ] as const) {
    t.equal(cudaHidden(value), hidden, `${value}`)
  }
})

t.test('this machine can be asked', async (t) => {
  const io = systemProbe()
  const raw = await probeGpus(io)
  t.notMatch(raw.problems.join(), /systeminformation/, 'the package answers in its own process')
  t.match(io.runtimeFolder(), /onnxruntime-node/)
  t.type((await probeRuntimes(io)).cuda, 'boolean')
})

t.test('the note that an install puts in the place of a CUDA library is none', async (t) => {
  const folder = t.testdir({ 'note.so': 'Not the CUDA library.\n', 'library.so': 'x'.repeat(10_000) })
  const { hasLibrary } = systemProbe({})
  const paths = ['note.so', 'library.so', 'none.so'].map((name) => join(folder, name))
  t.same(await Promise.all(paths.map(hasLibrary)), [false, true, false])
})
