import t, { type Test } from 'tap'
import { chmodSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isClusterPlugin } from '../api/cluster.js'
import { loadPlugins, type Setup } from '../plugins/load.js'
import { writeVersioned } from '../boot/home.js'
import { faultOf, folderOf, hashFolder, readRecord, recordPath } from '../plugins/packages.js'

const code = 'export default { manifest: { name: "demo", version: "1.0.0", kernel: "^1.0.0", ' +
  'summary: "S." }, start: () => ({}) }\n'

/** Creates a home with the plugin `demo` as `svc plugin install` would leave it. */
function installed (t: Test): { home: string, folder: string, root: string } {
  const home = t.testdir({ plugins: { 'demo-1': { 'lib.js': 'x', 'index.js': code } } })
  const root = join(home, 'plugins/demo-1')
  const files = hashFolder(root)
  const manifest = {
    name: 'demo', version: '1.0.0', kernel: '^1.0.0', summary: 'S.',
    routes: { hear: { method: 'GET', url: '/demo', summary: 's', authority: 'read' } }
  } as const
  writeVersioned(recordPath(home, 'demo-1'), 1, {
    name: 'demo', package: 'demo', version: '1.0.0', installed: '2026-01-01T00:00:00.000Z',
    sha256: '', files, module: 'index.js', manifest
  })
  const yaml = 'plugins:\n  demo:\n    module: ./plugins/demo-1/index.js\n'
  writeFileSync(join(home, 'svc.yaml'), yaml, { mode: 0o600 })
  return { home, folder: 'demo-1', root }
}

const load = async (home: string): Promise<Setup> =>
  await loadPlugins({ home, env: {}, flags: {}, bundled: [] })

const changes: [string, (root: string) => void, RegExp][] = [
  ['changed', (root) => { writeFileSync(join(root, 'lib.js'), 'y') }, /lib\.js has changed/],
  ['added', (root) => { writeFileSync(join(root, 'more.js'), '') }, /more\.js was added/],
  ['removed', (root) => { rmSync(join(root, 'lib.js')) }, /lib\.js is missing/],
  ['open to others', (root) => { chmodSync(join(root, 'lib.js'), 0o666) }, /lib\.js may be written/],
  ['in a folder open to others', (root) => { mkdirSync(join(root, 'd')); chmodSync(join(root, 'd'), 0o777) },
    /d may be written/],
  ['a link', (root) => { rmSync(join(root, 'lib.js')); symlinkSync('/etc/hostname', join(root, 'lib.js')) },
    /lib\.js is a link/],
  ['gone altogether', (root) => { rmSync(root, { recursive: true }) }, /cannot be read/]
]
for (const [title, change, message] of changes) {
  t.test(`an installed plugin of which a file is ${title} is off, and said to be`, async (t) => {
    const { home, folder, root } = installed(t)
    t.equal(faultOf(home, folder, readRecord(home, folder)!), null)
    change(root)
    t.match(faultOf(home, folder, readRecord(home, folder)!)?.message, message)
    const { order, off, changed } = await load(home)
    t.same(order, [])
    t.match(off, [{ plugin: { manifest: { name: 'demo' } }, message }])
    t.match(changed, [{ name: 'demo', message: /svc plugin install/ }])
    t.throws(() => off[0]!.plugin.start({} as never), 'its code is not there')
  })
}

t.test('a plugin of svc.yaml cannot open the cluster', async (t) => {
  const home = t.testdir({ 'demo.js': code.replace('start:', 'open: async () => ({}), start:') })
  chmodSync(join(home, 'demo.js'), 0o600)
  writeFileSync(join(home, 'svc.yaml'), 'plugins:\n  demo:\n    module: ./demo.js\n', { mode: 0o600 })
  const { order } = await load(home)
  t.equal(order[0]?.manifest.name, 'demo')
  t.notOk(order.some(isClusterPlugin))
})

t.test('a plugin that is as it was accepted runs', async (t) => {
  const { home } = installed(t)
  const { order, changed } = await load(home)
  t.match(order, [{ manifest: { name: 'demo' } }])
  t.same(changed, [])
})

const refused: [string, (home: string, root: string) => void, RegExp][] = [
  ['has no record', (home) => { rmSync(join(home, 'plugins/demo-1.json')) }, /not installed by/],
  ['is another one', (home) => {
    const path = join(home, 'plugins/demo-1.json')
    writeFileSync(path, readFileSync(path, 'utf8').replace('"name": "demo"', '"name": "other"'))
  }, /it is the plugin "other"/],
  ['is named by hand and open to others', (home, root) => {
    chmodSync(join(root, 'index.js'), 0o664)
    const yaml = 'plugins:\n  demo:\n    module: ./mine/index.js\n'
    mkdirSync(join(home, 'mine'))
    writeFileSync(join(home, 'mine/index.js'), code)
    chmodSync(join(home, 'mine/index.js'), 0o664)
    writeFileSync(join(home, 'svc.yaml'), yaml)
  }, /index\.js may be written by group or others; run: chmod go-w/]
]
for (const [title, change, message] of refused) {
  t.test(`a plugin that ${title} is refused`, async (t) => {
    const { home, root } = installed(t)
    change(home, root)
    await t.rejects(load(home), { name: 'BootError', message })
  })
}

t.test('a module is a path or a package, never an address', async (t) => {
  const home = t.testdir({})
  const others = [
    'https://example.org/x.js', 'data:text/javascript,1', 'file:///x.js', 'node:fs', 'C:\\\\x.js'
  ]
  for (const module of others) {
    const yaml = `plugins:\n  demo:\n    module: "${module}"\n`
    writeFileSync(join(home, 'svc.yaml'), yaml, { mode: 0o600 })
    await t.rejects(load(home), { name: 'BootError', message: /a package name; never a URL/ }, module)
  }
})

t.test('which folder a module lies in', (t) => {
  t.equal(folderOf('/h', '/h/plugins/a-1/node_modules/a/index.js'), 'a-1')
  const others = ['/h/plugins', '/h/plugins/a.js', '/h/a.js', '/h/plugins/../a/b.js', '/x/plugins/a/b.js']
  for (const other of others) {
    t.equal(folderOf('/h', other), undefined, other)
  }
  t.end()
})
