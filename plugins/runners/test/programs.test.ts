import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { backendOf, type LaunchParts } from '../instances/launch.js'
import { nodeResources, startDetection, type Detection } from '../machine/detection.js'
import { buildsFolder, buildsOf, buildText, findLibrary, findProgram } from '../machine/programs.js'
import { card } from './samples.js'
import type { ModelCard, ProgramDecl } from '../../../kernel/index.js'

const PROGRAM: ProgramDecl = { name: 'llama-server', builds: 'llama.cpp' }
const ENGINE = 'llama-server'
const BACKENDS = ['cuda', 'rocm', 'vulkan', 'metal', 'cpu']

interface TestCase { teardown (fn: () => unknown): void }

function homeOf (t: TestCase): string {
  const home = mkdtempSync(join(tmpdir(), 'svc-programs-'))
  t.teardown(() => { rmSync(home, { recursive: true, force: true }) })
  return home
}

function addBuild (home: string, backend: string, usedSince = '2026-01-01T00:00:00.000Z'): string {
  const folder = join(buildsFolder(home, 'llama.cpp'), `b7-${backend}`)
  mkdirSync(folder, { recursive: true })
  const devices = backend === 'cpu' ? [] : [`${backend.toUpperCase()}0: x`]
  const told = { tag: 'b7', backend, usedSince, digests: ['sha256:1'], devices }
  writeFileSync(join(folder, 'build.json'), buildText({ name: '', folder, ...told }))
  return folder
}

/** Options of `look`: the engine's program, the installed library, and the declared backends. */
interface Library { program?: ProgramDecl, installed?: string, declared?: Record<string, string> }

/** Detects the engines and hardware of a test node. */
async function look (
  home: string, env: Record<string, string> = {}, nvidiaDevice = false, clock = manualClock(),
  { program = PROGRAM, installed = '', declared = {} }: Library = {}
): Promise<Detection> {
  const detection = startDetection({
    home, uid: process.getuid!(), declared, options: {}, clock, raise () {}, clear () {},
    engines: [{ name: ENGINE, backends: BACKENDS, external: true, program }],
    log: { debug () {}, info () {}, warn () {}, error () {}, fatal () {} } as never,
    gpus: async () => ({ gpus: [], problems: [] }),
    overrides: async () => Object.entries(env).flatMap(([variable, path]) =>
      variable === 'PATH' ? [] : [{ variable, path, problem: 'does not exist' }]),
    files: {
      platform: 'linux', arch: 'x64', env, list: async () => nvidiaDevice ? ['nvidia0'] : [],
      hasLibrary: async () => false, runtimeFolder: () => null, hasPackage: (name) => name === installed
    }
  })
  await detection.probed
  return detection
}

const shown = (detection: Detection): unknown =>
  (nodeResources('n', detection, false)({} as never) as { n: { engines: unknown } }).n.engines

/** The backend choice for a model of the test engine. */
function choice (
  detection: Detection, backends: Record<string, string> = {}, program = PROGRAM,
  over: Partial<ModelCard> = {}
) {
  const decl = { summary: '', module: '', backends: BACKENDS, external: true, program }
  const bundle = { engine: () => ({ name: ENGINE, owner: 'x', decl }) } as unknown as LaunchParts['bundle']
  const config = { backends } as LaunchParts['config']
  const model = { ...card('acme/x'), engine: ENGINE, backends: ['cuda', 'cpu'], ...over }
  return backendOf({ bundle, config, detection }, model)
}

t.test('the build that was added or chosen last is used; what is none is passed over', async (t) => {
  const home = homeOf(t)
  addBuild(home, 'cpu', '2026-02-01T00:00:00.000Z')
  const newest = addBuild(home, 'vulkan', '2026-03-01T00:00:00.000Z')
  mkdirSync(join(buildsFolder(home, 'llama.cpp'), 'b8-cpu'))
  writeFileSync(join(addBuild(home, 'odd'), 'build.json'), '{"format":2}')
  t.strictSame(buildsOf(home, 'llama.cpp').map(({ name }) => name), ['b7-vulkan', 'b7-cpu'])
  t.match(findProgram({ home, env: {} }, PROGRAM), { from: 'build', path: join(newest, 'llama-server') })
  t.equal(findProgram({ home: join(home, 'none'), env: {} }, PROGRAM), null)
})

t.test('PATH counts more than a build, a variable more than both, usable or not', async (t) => {
  const home = homeOf(t)
  addBuild(home, 'cpu')
  t.strictSame(shown(await look(home)),
    { [ENGINE]: { from: 'build', tag: 'b7', backend: 'cpu', devices: [], words: 'the build b7-cpu' } })
  writeFileSync(join(home, 'llama-server'), '')
  chmodSync(join(home, 'llama-server'), 0o755)
  t.strictSame(shown(await look(home, { PATH: `/none:${home}` })),
    { [ENGINE]: { from: 'path', words: 'llama-server in PATH' } })
  t.strictSame(shown(await look(home, { PATH: home, SVC_LLAMA_SERVER_BIN: '/none' })),
    { [ENGINE]: {
      from: 'variable', usable: false, words: 'the program set by SVC_LLAMA_SERVER_BIN'
    } })
})

t.test('a node without the program does not offer the engine, until a build is added', async (t) => {
  const home = homeOf(t)
  const clock = manualClock()
  const detection = await look(home, {}, false, clock)
  t.strictSame(shown(detection), { [ENGINE]: null })
  t.match(choice(detection), { backend: null, code: 'engine_missing', remedy: /`svc engine add llama\.cpp`/ })
  addBuild(home, 'cpu')
  t.match(choice(detection), { backend: null }, 'it is looked for a hundred times a second')
  await clock.advance(10)
  t.match(choice(detection), { backend: 'cpu' })
})

t.test('a library stands in for a program that is not found', async (t) => {
  const home = homeOf(t)
  const program: ProgramDecl = { ...PROGRAM, otherwise: {
    name: 'the lib', module: 'file:///lib.js', backends: ['cpu'], packages: { 'linux-x64': 'lib-x64' },
    without: { vision_weights: 'takes no images' }
  } }
  const clock = manualClock()
  const here = await look(home, {}, true, clock, { program, installed: 'lib-x64' })
  t.strictSame(shown(here), { [ENGINE]: { from: 'library', words: 'the lib (cpu)' } })
  t.strictSame(here.backends(), { [ENGINE]: ['cpu'] }, 'whatever GPU is there')
  t.match(choice(here, {}, program), { backend: 'cpu' })
  const files = { platform: 'darwin', arch: 'arm64', hasPackage: () => true }
  const packages = { 'darwin-arm64': 'lib-mac' }
  const mac = { ...program.otherwise!, gpus: { 'darwin-arm64': 'metal' }, packages }
  t.match(findLibrary(files, mac), { library: { backends: ['metal', 'cpu'] } })
  const cases: [Partial<ModelCard>, string][] = [
    [{ backends: ['cuda'] }, 'the lib runs on cpu, the model on cuda'],
    [{ files: [{ path: 'm.gguf', role: 'vision_weights', bytes: 1 }] }, 'the lib takes no images']
  ]
  for (const [over, why] of cases) {
    t.match(choice(here, {}, program, over), {
      code: 'engine_missing',
      problem: `engine llama-server needs llama-server, which is not installed; ${why}`,
      remedy: /`svc engine add llama\.cpp`/
    })
  }
  addBuild(home, 'vulkan')
  await clock.advance(100)
  t.match(shown(here), { [ENGINE]: { from: 'build' } }, 'the program counts more')
  const none = homeOf(t)
  const whys: [Library, RegExp][] = [
    [{ program }, /the package lib-x64 is not installed: it needs glibc/],
    [{ program: { ...program, otherwise: { ...program.otherwise!, packages: {} } } },
      /the lib is not built for linux-x64/],
    [{ program, installed: 'lib-x64', declared: { [ENGINE]: 'cuda' } },
      /the lib does not support cuda, which plugins\.runners\.backends\.llama-server requires/]
  ]
  for (const [library, problem] of whys) {
    const bare = await look(none, {}, false, manualClock(), library)
    t.strictSame(shown(bare), { [ENGINE]: null })
    t.match(choice(bare, {}, program), { backend: null, code: 'engine_missing', problem })
  }
})

t.test('a build runs on what it was made for', async (t) => {
  const home = homeOf(t)
  addBuild(home, 'vulkan')
  const clock = manualClock()
  const detection = await look(home, {}, true, clock)
  t.match(choice(detection), { backend: 'vulkan', declared: false })
  t.match(choice(detection, {}, PROGRAM, { backends: ['cpu'] }), { backend: 'cpu' })
  addBuild(home, 'cuda', '2026-09-01T00:00:00.000Z')
  await clock.advance(100)
  t.match(choice(detection), { backend: 'cuda' })
  t.match(choice(detection, { [ENGINE]: 'cpu' }), { backend: 'cpu', declared: true })
})

t.test('each engine has backends of its own: a program says which GPUs it can use', async (t) => {
  const home = homeOf(t)
  const backends = async (listed: string, nvidiaDevice: boolean): Promise<unknown> => {
    writeFileSync(join(home, 'llama-server'), `#!/bin/sh\nprintf '${listed}'\n`)
    chmodSync(join(home, 'llama-server'), 0o755)
    const clock = manualClock()
    const detection = await look(home, { PATH: `${home}:/bin` }, nvidiaDevice, clock)
    await clock.advance(1000)
    const own = (): string[] => detection.backends()[ENGINE]!
    while (!nvidiaDevice && listed.includes('CUDA') && !own().includes('cuda')) {
      await new Promise((resolve) => { setImmediate(resolve) })
    }
    const { n } = nodeResources('n', detection, false)({} as never) as { n: Record<string, unknown> }
    t.strictSame(n['engineBackends'], { [ENGINE]: own() })
    t.match(choice(detection), { backend: own()[0] })
    return n['backends']
  }
  const list = 'Available devices:\\n'
  const h200 = '  CUDA0: NVIDIA H200 (143155 MiB, 142629 MiB free)\\n'
  t.strictSame(await backends(list + h200, true), ['cpu', 'cuda'])
  t.strictSame(await backends(list + h200, false), ['cpu', 'cuda'], 'without a device file, as in WSL')
  t.strictSame(await backends(list, true), ['cpu'], 'a build for the CPU beside a GPU')
  const others = ['rocm ROCm0: AMD Radeon PRO W7900 (46064 MiB, 45940 MiB free)',
    'vulkan Vulkan0: AMD Radeon 780M (RADV) (16 MiB, 9 MiB free)',
    'metal MTL0: Apple M2 (10922 MiB, 10922 MiB free)',
    'metal Metal: Apple M2 (10922 MiB, 10922 MiB free)']
  for (const [, backend, device] of others.map((line) => /^(\w+) (.*)$/.exec(line)!)) {
    t.strictSame(await backends(`${list}  ${device!}\\n`, true), ['cpu', backend], device!)
  }
  t.strictSame(await backends('unknown option', true), ['cpu', 'cuda'], 'an old program: as the driver says')
})

t.test('a program that others may write is not run outside of the sandbox', async (t) => {
  const home = homeOf(t)
  const path = join(home, 'llama-server')
  const ran = async (mode: number): Promise<boolean> => {
    rmSync(join(home, 'ran'), { force: true })
    writeFileSync(path, `#!/bin/sh\ntouch ${join(home, 'ran')}\n`)
    chmodSync(path, mode)
    // Waits for the program's output, because the machine has a GPU.
    await look(home, { PATH: `${home}:/bin:/usr/bin` }, true)
    return existsSync(join(home, 'ran'))
  }
  t.equal(await ran(0o777), false)
  t.equal(await ran(0o755), true)
})
