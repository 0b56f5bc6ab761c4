import { join } from 'node:path'
import t from 'tap'
import { cudaHidden, findRuntimes, runtimeFiles, type RuntimeFiles } from '../machine/runtimes.js'
import { machine } from './samples.js'

/** Folders and files by path; a folder lists the names directly below it. */
function tree (files: Record<string, string>): Pick<RuntimeFiles, 'list' | 'hasLibrary'> {
  const paths = Object.keys(files)
  return {
    list: async (folder) => [
      ...new Set(
        paths
          .filter((path) => path.startsWith(`${folder}/`))
          .map((path) => path.slice(folder.length + 1).split('/')[0] ?? '')
      )
    ],
    hasLibrary: async (path) => path in files
  }
}

const device = { '/dev/nvidia0': '', '/dev/nvidiactl': '' }

function runtimes (
  name: string,
  files: Partial<RuntimeFiles>,
  expected: { cuda: boolean, webgpu: boolean, nvidiaDevice: boolean }
): void {
  t.test(`runtimes: ${name}`, async (t) => { t.same(await findRuntimes(machine(files)), expected) })
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

t.test('this machine can be looked at', async (t) => {
  const files = runtimeFiles()
  t.match(files.runtimeFolder(), /onnxruntime-node/)
  t.type((await findRuntimes(files)).cuda, 'boolean')
})

t.test('the note that an install puts in the place of a CUDA library is none', async (t) => {
  const folder = t.testdir({ 'note.so': 'Not the CUDA library.\n', 'library.so': 'x'.repeat(10_000) })
  const { hasLibrary } = runtimeFiles({})
  const paths = ['note.so', 'library.so', 'none.so'].map((name) => join(folder, name))
  t.same(await Promise.all(paths.map(hasLibrary)), [false, true, false])
})
