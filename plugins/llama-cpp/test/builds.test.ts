import {
  chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, statSync, symlinkSync,
  writeFileSync
} from 'node:fs'
import { spawn, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { outgoingDispatcher } from '../../../kernel/index.js'
import { cli } from '../../../kernel/test/cli-helpers.js'
import { buildsOf, findProgram, readDevices } from '../../runners/service.js'
import { addBuild } from '../builds/add.js'
import {
  assetsFor, backendFor, verifiedAsset, KNOWN_TAG, PINNED, readName, type Asset
} from '../builds/release.js'
import {
  archiveOf, engine, homeAt, nameOf, SERVER, sha256, startReleases, tarOf, underWay, type Made, type Served
} from './builds-kit.js'
import llamaCpp from '../index.js'
import { folder } from './llama-kit.js'

const turn = (): Promise<void> => new Promise((resolve) => { setImmediate(resolve) })
const NAME = nameOf('b7')
const CPU = ['add', 'llama.cpp', '--build', 'b7', '--backend', 'cpu']

/** Creates a home, and a server with release b7 and its archive. */
async function rig (t: Parameters<typeof folder>[0], served: Partial<Served> = {}) {
  const bytes = served.bytes ?? archiveOf('b7')
  const server = await startReleases(t, { b7: { [NAME]: { bytes, ...served } } })
  const home = homeAt(folder(t), server.url)
  return { home, bytes, ...server, build: join(home, 'engines/llama.cpp/b7-cpu') }
}

t.test('a build is brought, used, and removed', async (t) => {
  const { home, build, bytes } = await rig(t)
  const added = await engine(home, CPU)
  t.equal(added.status, 0, added.err)
  t.match(added.out,
    'llama.cpp b7-cpu is installed; it computes on Test0: A made-up device (8 MiB, 7 MiB free)')
  t.match(added.err, `${NAME}  100 %`)
  t.equal(readFileSync(join(build, 'libx.so'), 'utf8'), 'a library', 'links to links')
  t.equal(readlinkSync(join(build, 'libx.so')), 'libx.so.0')
  t.equal(statSync(join(build, 'llama-server')).mode & 0o7777, 0o755, 'nobody else may write it')
  t.strictSame(readdirSync(underWay(home)), [], 'nothing stays beside')
  t.match(findProgram({ home, env: {} }, { name: 'llama-server', builds: 'llama.cpp' }),
    { from: 'build', path: join(build, 'llama-server'), build: { tag: 'b7', digests: [sha256(bytes)] } })

  t.match(await engine(home, ['ls']), { status: 0, out: /llama\.cpp  b7-cpu +\S+ +yes +Test0: A made-up/ })
  t.match(JSON.parse((await engine(home, ['ls', '--json'])).out),
    { builds: [{ engine: 'llama.cpp', name: 'b7-cpu', used: true }], other: null })

  const again = await engine(home, [...CPU, '--json'])
  t.match(JSON.parse(again.out), { name: 'b7-cpu', added: false, used: true })
  t.match(await engine(home, ['rm', 'llama.cpp', 'b7-cpu']), { status: 0, out: /b7-cpu is removed/ })
  t.strictSame(readdirSync(join(home, 'engines/llama.cpp')), ['.coming'])
  t.match(await engine(home, ['rm', 'llama.cpp', 'b7-cpu']),
    { status: 3, err: /no build b7-cpu; installed: none/ })
})

t.test('a server that is here already, or its folder', async (t) => {
  const made = folder(t)
  const own = join(made, 'bin')
  const gpu = SERVER.replace('version: 1', 'version: 812 (abc)').replace('Test0', 'Vulkan0')
  mkdirSync(own)
  writeFileSync(join(own, 'llama-server'), gpu, { mode: 0o755 })
  writeFileSync(join(own, 'libx.so.1'), 'a library')
  symlinkSync('libx.so.1', join(own, 'libx.so'))
  writeFileSync(join(own, 'notes'), 'no')
  for (const path of [made, join(own, 'llama-server')]) {
    const home = homeAt(folder(t), 'https://127.0.0.1:9')
    const run = async (...more: string[]) => await engine(home, ['add', 'llama.cpp', '--from', path, ...more])
    t.match(await run(), { status: 0, out: /llama\.cpp b812-vulkan is installed; it computes on Vulkan0/ })
    const [build] = buildsOf(home, 'llama.cpp')
    t.match(build, { tag: 'b812', backend: 'vulkan', digests: [sha256(Buffer.from(gpu))] })
    t.same(readdirSync(build!.folder).sort(), ['build.json', 'libx.so', 'libx.so.1', 'llama-server'])
    t.match(await run(), { status: 0, out: /b812-vulkan is already installed/ })
    t.match(await run('--build', 'b9', '--backend', 'cpu'), { status: 0, out: /b9-cpu is installed/ })
  }
  t.match(await engine(homeAt(folder(t), ''), ['add', 'llama.cpp', '--from', folder(t)]),
    { status: 2, err: /contains no llama-server/ })
})

t.test('programs that take precedence over a build are named', async (t) => {
  const { home } = await rig(t)
  const named = await engine(home, CPU, { env: { SVC_LLAMA_SERVER_BIN: '/opt/llama-server' } })
  t.match(named, { status: 0, err: /SVC_LLAMA_SERVER_BIN, \/opt\/llama-server, takes precedence/ })
  const path = folder(t)
  writeFileSync(join(path, 'llama-server'), '')
  chmodSync(join(path, 'llama-server'), 0o755)
  const env = { PATH: path }
  t.match(await engine(home, ['ls'], { env }),
    { out: /b7-cpu +\S+ +- /, err: /llama-server, which is in PATH, is used/ })
})

t.test('of several builds the last one that was added, or chosen, is used', async (t) => {
  const releases = Object.fromEntries(['b7', 'b8'].map((tag) =>
    [tag, { [nameOf(tag)]: { bytes: archiveOf(tag) } }]))
  const home = homeAt(folder(t), (await startReleases(t, releases)).url)
  const used = (): string | undefined => buildsOf(home, 'llama.cpp')[0]?.name
  for (const tag of ['b7', 'b8', 'b7']) {
    t.equal((await engine(home, ['add', 'llama.cpp', '--build', tag, '--backend', 'cpu'])).status, 0)
    t.equal(used(), `${tag}-cpu`)
  }
  t.equal(buildsOf(home, 'llama.cpp').length, 2)
})

t.test('offline, from a file', async (t) => {
  const directory = folder(t)
  const home = homeAt(directory, 'http://127.0.0.1:9')
  const file = join(directory, NAME)
  writeFileSync(file, archiveOf('b7'))
  const from = ['add', 'llama.cpp', '--from', file, '--backend', 'cpu']
  t.match(await engine(home, from), { status: 0, out: /b7-cpu is installed/ })
  t.match(await engine(home, from), { status: 0, out: /is already installed/ })
  writeFileSync(file, archiveOf('b7', { weight: 9 }))
  t.match(await engine(home, from), { status: 1, err: /b7-cpu is already installed, from other archives/ })
  const other = join(directory, 'mine.tar.gz')
  writeFileSync(other, archiveOf('b9'))
  t.match(await engine(home, ['add', 'llama.cpp', '--from', other]),
    { status: 2, err: /--build TAG and --backend/ })
  const named = ['add', 'llama.cpp', '--from', other, '--build', 'b9', '--backend', 'cpu']
  t.match(await engine(home, named), { status: 0, out: /b9-cpu is installed/ })
  t.match(await engine(home, ['add', 'llama.cpp', '--from', join(directory, nameOf('b6'))]),
    { status: 2, err: /cannot be read: ENOENT/ })
})

t.test('a release that svc does not know is taken by the digest that a person gives', async (t) => {
  const { home, bytes } = await rig(t, { digest: null })
  const hex = sha256(bytes).slice(7)
  t.match(await engine(home, [...CPU, '--sha256', 'abc']), { status: 2, err: /--sha256 abc: expected 64/ })
  t.match(await engine(home, [...CPU, '--sha256', '1'.repeat(64)]),
    { status: 1, err: /does not have the expected digest/ })
  const file = join(home, NAME)
  writeFileSync(file, bytes)
  t.match(await engine(home, [...CPU, '--sha256', '1'.repeat(64), '--from', file]),
    { status: 1, err: /does not have the given SHA-256, but sha256:/ })
  t.match(await engine(home, [...CPU, '--sha256', hex.toUpperCase()]),
    { status: 0, out: /b7-cpu is installed/ })
})

t.test('the address of releases is an https one', async (t) => {
  const home = homeAt(folder(t), 'http://127.0.0.1:4711')
  t.match(await engine(home, CPU), { status: 1, err: /not connect to 127\.0\.0\.1: it is not https/ })
  t.match(await cli(['config', 'check', '--home', home], { plugins: [llamaCpp] }),
    { status: 1, out: /engines\.url: expected an https address without a password or a query/ })
})

t.test('a download that breaks off goes on where it was', async (t) => {
  const { home, bytes, asked } = await rig(t, { bytes: archiveOf('b7', { weight: 300_000 }), cut: 100_000 })
  t.match(await engine(home, CPU), { status: 0 })
  const [, second] = asked
  const at = Number(/^bytes=(\d+)-$/.exec(second?.[1] ?? '')?.[1])
  t.ok(at > 0 && at <= 100_000 && asked.length === 2, `from byte ${at} of ${bytes.length}`)
})

t.test('a server without ranges gives it anew', async (t) => {
  const bytes = archiveOf('b7', { weight: 300_000 })
  const { home, asked } = await rig(t, { bytes, cut: 100_000, whole: true })
  t.match(await engine(home, CPU), { status: 0 })
  t.equal(asked.length, 2)
})

t.test('who interrupts it finds what was there the next time', async (t) => {
  const { home, asked } = await rig(t, { bytes: archiveOf('b7', { weight: 300_000 }), hold: 100_000 })
  const stop = new AbortController()
  const running = engine(home, CPU, { signal: stop.signal })
  const part = (): number => {
    const [name] = readdirSync(underWay(home)).filter((one) => one.endsWith('.part'))
    return name === undefined ? 0 : statSync(join(underWay(home), name)).size
  }
  while (asked.length === 0 || part() === 0) await turn()
  stop.abort()
  t.not((await running).status, 0)
  t.match(readdirSync(underWay(home)), [/^left\..*\.part$/])
  t.match(await engine(home, CPU), { status: 0 })
  t.match(asked[1]?.[1], /^bytes=[1-9]\d*-$/)
  t.strictSame(readdirSync(underWay(home)), [])
})

const refused: [what: string, served: Partial<Served>, err: RegExp][] = [
  ['another digest', { digest: '0'.repeat(64) }, /does not have the expected digest/],
  ['a digest that only its server tells', { digest: null }, /does not know the SHA-256 of .*--sha256/],
  ['plain HTTP', { url: 'http://127.0.0.1:4711/x' }, /svc does not connect to 127\.0\.0\.1: it is not https/],
  ['another machine of the network', { url: 'https://10.0.0.1/x' }, /10\.0\.0\.1 is not a public address/],
  ['a metadata service', { url: 'https://169.254.169.254/x' }, /169\.254\.169\.254 is link-local/],
  ['no archive', { bytes: Buffer.from('no archive') }, /the archive cannot be unpacked/],
  ['an archive without the program', { bytes: tarOf([{ path: 'x/y', text: 'y' }]) },
    /contains no llama-server/],
  ['a program that does not start',
    { bytes: archiveOf('b7', { server: '#!/bin/sh\necho no libx >&2; exit 1\n' }) },
    /does not start on this machine: no libx/]
]
for (const [what, served, err] of refused) {
  t.test(`refused: ${what}`, async (t) => {
    const { home } = await rig(t, served)
    t.match(await engine(home, CPU), { status: 1, out: '', err })
    t.strictSame(readdirSync(join(home, 'engines/llama.cpp')), ['.coming'])
    t.strictSame(readdirSync(underWay(home)), [], 'nothing stays')
  })
}

const outside: [what: string, entries: Made[], err: RegExp][] = [
  ['a path upwards', [{ path: 'x/../../evil', text: 'evil' }], /outside its folder: x\/\.\.\/\.\.\/evil/],
  ['an absolute path', [{ path: '/tmp/svc-evil', text: 'evil' }], /outside its folder: \/tmp\/svc-evil/],
  ['a link upwards', [{ path: 'x/up', link: '../..' }], /a link to another folder: x\/up/],
  ['a link to the folder above', [{ path: 'x/up', link: '..' }], /a link to another folder: x\/up/],
  ['an absolute link', [{ path: 'x/etc', link: '/etc' }], /a link to another folder: x\/etc to \/etc/],
  ['a second name for a file', [{ path: 'x/hard', link: '/etc/passwd', hard: true }], /neither a file.*Link/],
  ['too many entries', Array.from({ length: 10_001 }, (_, i) => ({ path: `x/${i}` })),
    /more than 10000 entries/]
]
for (const [what, entries, err] of outside) {
  t.test(`an archive is refused for ${what}`, async (t) => {
    const { home } = await rig(t, { bytes: tarOf([{ path: 'x/llama-server', text: 'x' }, ...entries]) })
    t.match(await engine(home, CPU), { status: 1, err })
    t.strictSame(readdirSync(underWay(home)), [])
    t.notOk(lstatSync('/tmp/svc-evil', { throwIfNoEntry: false }))
  })
}

t.test('two adds at once: one build, no rests', async (t) => {
  const { home } = await rig(t, { bytes: archiveOf('b7', { weight: 200_000 }) })
  const both = await Promise.all([engine(home, CPU), engine(home, CPU)])
  t.match(both, [{ status: 0 }, { status: 0 }])
  t.equal(buildsOf(home, 'llama.cpp').length, 1)
  t.strictSame(readdirSync(underWay(home)), [])
})

t.test('a full disk: refused before a byte is fetched, and nothing stays of one that fills', async (t) => {
  const { home, url, asked } = await rig(t)
  const dispatcher = await outgoingDispatcher('named')
  t.teardown(async () => { await dispatcher.destroy() })
  const parts = {
    home, base: url, dispatcher, sha256: [], signal: new AbortController().signal, files: [], env: {},
    tag: 'b7', backend: 'cpu', nvidia: false,
    machine: { platform: process.platform, arch: process.arch }, now: () => new Date(), progress () {}
  }
  await t.rejects(addBuild({ ...parts, free: async () => 1000 }),
    { message: /not enough disk space in the home.* 1 MiB/ })
  t.strictSame(asked, [])
  const root = process.getuid?.() === 0 && process.platform === 'linux'
  const small = join(folder(t), 'small')
  mkdirSync(small)
  if (!root || spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', small]).status !== 0) return
  t.teardown(() => { spawnSync('umount', ['-l', small]) })
  const server = await startReleases(t, { b7: { [NAME]: { bytes: archiveOf('b7', { weight: 200_000 }) } } })
  const full = { ...parts, home: small, base: server.url, free: async () => Infinity }
  await t.rejects(addBuild(full), { message: /the disk is full: free space/ })
  t.strictSame(readdirSync(underWay(small)), [])
})

t.test('a build that a runner uses stays', async (t) => {
  const { home, build } = await rig(t)
  await engine(home, CPU)
  const began = join(home, 'began')
  const runner = spawn(join(build, 'llama-server'), ['wait', began])
  t.teardown(() => { runner.kill('SIGKILL') })
  while (lstatSync(began, { throwIfNoEntry: false }) === undefined) await turn()
  t.match(await engine(home, ['rm', 'llama.cpp', 'b7-cpu']),
    { status: 1, err: new RegExp(`in use by process ${runner.pid!}`) })
  t.equal(buildsOf(home, 'llama.cpp').length, 1)
})

t.test('wrong words are told with those there are', async (t) => {
  const { home } = await rig(t)
  t.match(await engine(home, ['add', 'vllm']),
    { status: 3, err: /no engine "vllm"; svc installs only llama\.cpp/ })
  t.match(await engine(home, ['add', 'llama.cpp', '--build', '../x', '--backend', 'cpu']),
    { status: 2, err: /--build \.\.\/x: expected a tag/ })
  t.match(await engine(home, ['add', 'llama.cpp', '--from', 'llama-b11324-bin-win-cpu-x64.zip']),
    { status: 2, err: /llama-b11324-bin-win-cpu-x64\.zip is a ZIP archive.*\.tar\.gz/ })
  t.match(await engine(home, ['add', 'llama.cpp', '--backend', 'abacus']),
    { status: 2, err: /this machine supports cpu/ })
  t.match(await engine(home, ['add', 'llama.cpp', '--build', 'b1', '--backend', 'cpu']),
    { status: 1, err: /no release b1 at/ })
})

t.test('svc knows the archives of its own release', (t) => {
  const assets = Object.keys(PINNED).map((name): Asset => ({ name, url: '', size: 1 }))
  const machines = [['linux', 'x64', 'cpu'], ['linux', 'x64', 'vulkan'], ['linux', 'x64', 'cuda'],
    ['linux', 'arm64', 'cpu'], ['linux', 'arm64', 'vulkan'], ['darwin', 'arm64', 'metal'],
    ['darwin', 'x64', 'cpu']] as const
  const taken = machines.flatMap(([platform, arch, backend]) =>
    assetsFor(assets, KNOWN_TAG, { platform, arch }, backend).map((asset) => verifiedAsset(asset, undefined)))
  t.same(new Set(taken.map(({ name }) => name)), new Set(Object.keys(PINNED)))
  t.equal(new Set(taken.map(({ digest }) => digest)).size, taken.length)
  t.end()
})

t.test('which archives a machine takes', async (t) => {
  const names = ['cudart-llama-b11324-bin-ubuntu-cuda-12.8-x64.tar.gz', 'llama-b11324-bin-macos-arm64.tar.gz',
    'cudart-llama-b11324-bin-ubuntu-cuda-13.4-x64.tar.gz', 'llama-b11324-bin-macos-x64.tar.gz',
    'llama-b11324-bin-ubuntu-arm64.tar.gz', 'llama-b11324-bin-ubuntu-cuda-13.4-x64.tar.gz',
    'llama-b11324-bin-ubuntu-cuda-12.8-x64.tar.gz', 'llama-b11324-bin-ubuntu-openvino-2026.4-x64.tar.gz',
    'llama-b11324-bin-ubuntu-vulkan-x64.tar.gz', 'llama-b11324-bin-ubuntu-x64.tar.gz',
    'llama-b11324-bin-win-cpu-x64.zip']
  const assets = names.map((name): Asset => ({ name, url: '', size: 1 }))
  const takes = (platform: string, arch: string, given?: string, nvidia = false): string[] => {
    const machine = { platform, arch }
    return assetsFor(assets, 'b11324', machine, backendFor(given, machine, nvidia)).map(({ name }) => name)
  }
  t.strictSame(takes('linux', 'x64'), [names[9]])
  t.strictSame(takes('linux', 'x64', undefined, true), [names[6], names[0]], 'the oldest, and its libraries')
  t.strictSame(takes('linux', 'x64', 'vulkan', true), [names[8]])
  t.strictSame(takes('linux', 'arm64'), [names[4]])
  t.strictSame(takes('darwin', 'arm64'), [names[1]])
  t.strictSame(takes('darwin', 'x64'), [names[3]])
  t.throws(() => takes('linux', 'arm64', 'vulkan'), /has no build for vulkan on linux, arm64/)
  t.throws(() => takes('darwin', 'x64', 'metal'), /this machine supports cpu/)
  const old = assets.map((asset) => ({ ...asset, name: asset.name.replace('.tar.gz', '.zip') }))
  t.throws(() => assetsFor(old, 'b11324', { platform: 'linux', arch: 'x64' }, 'cpu'),
    /has llama-b11324-bin-ubuntu-x64\.zip only, which is a ZIP archive.*reads only the \.tar\.gz/)
  t.throws(() => takes('win32', 'x64'), /no build of llama\.cpp for win32/)
  t.throws(() => takes('freebsd', 'x64'), /no build of llama\.cpp for freebsd/)
  t.match(readName(names[6]!), { tag: 'b11324', backend: 'cuda' })
  t.match(readName(names[1]!), { tag: 'b11324', backend: 'metal' })
  t.equal(readName('llama-b1-ui.tar.gz'), null)
  t.strictSame(readDevices('x\nAvailable devices:\n  CUDA0: NVIDIA H200 (1 MiB)\n  (none)\n'),
    ['CUDA0: NVIDIA H200 (1 MiB)'])
})
