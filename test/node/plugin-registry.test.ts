import t from 'tap'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ask } from './http.js'
import { cli, folder, root, run, startNode, svc, until } from './kit.js'
import { descendants } from './proc.js'
import { startRegistry, type Registry } from './registry.js'

const module = { type: 'module', exports: './index.js', peerDependencies: { svc: '*' } }

/** Source of a plugin with one route, `/NAME`, which returns the value of the expression `answer`. */
const source = (name: string, answer: string, imports = ''): string => `${imports}
import { definePlugin } from 'svc/plugin'
export default definePlugin({
  name: '${name}', version: '1.0.0', kernel: '^1.0.0', summary: 'Says something.\\u001b[8m',
  routes: { say: { method: 'GET', url: '/${name}', summary: 'Says it.', authority: 'read' } }
}, () => ({ routes: { say: () => (${answer}) } }))
`

/** Install script that creates the file `mark`, which proves that the script ran. */
const leaves = (mark: string): Record<string, string> =>
  ({ postinstall: `node -e "require('fs').writeFileSync('${mark}', '')"` })

/** Publishes a plugin and its dependency, both with install scripts, and later versions of the plugin. */
async function publishHello (registry: Registry, mark: string): Promise<Record<string, string>> {
  const words = await registry.publish(
    { name: 'hello-words', version: '1.0.3', ...module, scripts: leaves(`${mark}-words`) },
    { 'index.js': 'export const hello = "good morning"\n' })
  const index = (version: string): string =>
    source('hello', `{ hello, of: '${version}' }`, 'import { hello } from "hello-words"')
  const at = async (version: string, tag?: string): Promise<string> => await registry.publish({
    name: 'svc-plugin-hello', version, ...module, scripts: leaves(mark),
    dependencies: { 'hello-words': '^1.0.0' }, devDependencies: { 'only-to-build-it': '^1.0.0' }
  }, { 'index.js': index(version) }, tag)
  return {
    words, '1.0.0': await at('1.0.0'), '1.1.0': await at('1.1.0'),
    beta: await at('2.0.0-beta.1', 'beta')
  }
}

/** Runs `svc plugin install`; returns its status and output. */
async function install (registry: Registry, home: string, what: string): Promise<string> {
  const { status, stdout, stderr } =
    await svc(['plugin', 'install', what, '--yes', '--home', home], { env: registry.env })
  const told = `${status} ${stdout}${stderr}`
  if (told.includes('\x1b')) throw new Error('package text contains terminal control characters')
  return told
}

/** Names of the entries in the folder of installed plugins. */
const inside = (home: string): string[] =>
  existsSync(join(home, 'plugins')) ? readdirSync(join(home, 'plugins')) : []

t.test('a plugin is installed by name, with its dependencies and without its scripts', async (t) => {
  const registry = await startRegistry(t)
  const where = folder(t)
  const mark = join(where, 'script-ran')
  const integrity = await publishHello(registry, mark)
  const node = await startNode(t, { ready: false })
  const said = async (path = '/hello'): Promise<unknown> => (await ask(node, path)).json

  t.match(await install(registry, node.home, 'svc-plugin-hello@^1.0.0'),
    /^0 hello 1\.1\.0 is installed, and running/)
  t.match(await said(), { hello: 'good morning', of: '1.1.0' })
  const [kept] = inside(node.home).filter((name) => /^hello-\w+$/.test(name))
  const lock = join(node.home, 'plugins', kept!, 'package-lock.json')
  const { packages } = JSON.parse(readFileSync(lock, 'utf8')) as
    { packages: Record<string, { version: string, integrity: string }> }
  t.match(packages['node_modules/svc-plugin-hello'], { version: '1.1.0', integrity: integrity['1.1.0']! })
  t.match(packages['node_modules/hello-words'], { version: '1.0.3', integrity: integrity['words']! })
  t.same(registry.asked.filter((path) => /^svc$|only-to-build-it/.test(path)), [],
    'neither another svc nor what builds it')

  const wishes = { '1.0.0': '1.0.0', beta: '2.0.0-beta.1', '>=1.0.0 <2': '1.1.0' }
  for (const [wanted, version] of Object.entries(wishes)) {
    t.match(await install(registry, node.home, `svc-plugin-hello@${wanted}`), /^0 .*and running/, wanted)
    t.match(await said(), { of: version })
  }
  await registry.publish({ name: '@me/greeter', version: '0.1.0', ...module },
    { 'index.js': source('greeter', '{ n: 1 }') })
  t.match(await install(registry, node.home, '@me/greeter'), /^0 greeter 0\.1\.0 is installed, and running/)
  t.match(await said('/greeter'), { n: 1 })

  t.same(readdirSync(where), [], 'no script has run')
  writeFileSync(join(where, 'package.json'), '{}')
  const npm = run('npm', ['install', 'svc-plugin-hello@1.1.0', '--legacy-peer-deps', '--omit=dev'],
    { cwd: where, env: registry.env })
  t.equal(await npm.ended, 0, npm.stderr())
  t.ok(existsSync(mark), 'npm by itself would have run it')
})

t.test('a failed or refused install leaves nothing behind', async (t) => {
  const registry = await startRegistry(t)
  const home = join(folder(t), 'home')
  const index = { 'index.js': source('hello', '{}') }
  const publish = async (name: string, more = {}, files = index): Promise<unknown> =>
    await registry.publish({ name, version: '1.0.0', ...module, ...more }, files)
  await publish('svc-plugin-hello')
  await publish('no-plugin', {}, { 'index.js': 'export default 1\n' })
  await publish('no-module', { exports: './elsewhere.js' })
  await publish('throws', {}, { 'index.js': 'throw new Error("no luck\\u001b[8m at import")\n' })
  await publish('writes', {},
    { 'index.js': `import { writeFileSync } from 'node:fs'\nwriteFileSync('${home}.was-here', '')\n` })
  await publish('altered')
  await publish('needs-altered', { dependencies: { altered: '1.0.0' } })
  registry.tamper('altered')
  await publish('own-svc', { optionalDependencies: { svc: '*' } })
  await publish('svc')
  await publish('from-git', { dependencies: { other: 'git+file:///nowhere/other.git' } })
  await publish('from-folder', { dependencies: { other: 'file:../..' } })
  await publish('bundled-name', {}, { 'index.js': source('chat', '{}') })
  const refused: [string, RegExp][] = [
    ['nobody-made-this', /^3 .*no package for nobody-made-this: Not Found[^]*npm config get/],
    ['svc-plugin-hello@^7', /^3 .*No matching version.*hello@\^7.*`npm view svc-plugin-hello versions`/],
    ['svc-plugin-hello@nightly', /^3 .*No matching version/],
    ['no-plugin',
      /^1 .*no-plugin is not an svc plugin: its default export is not the result of definePlugin/],
    ['no-module', /^1 .*no-module is not an svc plugin: /],
    ['throws', /^1 .*throws is not an svc plugin: no luck \[8m at import/],
    ['writes', /^1 .*writes is not an svc plugin: .*restricted/],
    ['altered', /^1 .*a file for altered does not match its hash[^]*npm config get registry/],
    ['needs-altered', /^1 .*a file for needs-altered does not match its hash/],
    ['own-svc', /^1 .*"svc" .*which would install a second svc/],
    ['from-git', /^1 .*from-git depends on a git repository|^1 .*has no fixed hash/],
    ['from-folder', /^1 /],
    ['bundled-name', /^1 .*"chat" is the name of a plugin that ships with svc/],
    ['hello@http://127.0.0.1/x.tgz', /^2 .*neither a folder with a package\.json, nor a \.tgz file/],
    ['hello@npm:other', /^2 /], ['hello@', /^2 /], ['me/hello', /^2 /], ['--registry=x', /^2 /],
    ['git+https://127.0.0.1/x.git', /^2 /]
  ]
  for (const [what, message] of refused) {
    const told = await install(registry, home, what)
    t.match(told, message, what)
    t.notMatch(told, /\n\s+at .*:\d+:\d+|A complete log/, 'no stack, and no log of npm')
    t.same(inside(home).filter((name) => name !== 'node_modules'), [], what)
    t.notOk(existsSync(join(home, 'svc.yaml')), what)
  }
  t.notOk(existsSync(`${home}.was-here`), 'nothing could be written by asking')
  await registry.close()
  t.match(await install(registry, home, 'a-new-one'),
    /^7 .*the registry cannot be reached \(ECONNREFUSED\)[^]*`npm ping`/)
  t.same(inside(home), ['node_modules'])
})

t.test('an interrupted or killed install leaves no partial files', async (t) => {
  const registry = await startRegistry(t)
  const home = join(folder(t), 'home')
  await registry.publish({ name: 'svc-plugin-hello', version: '1.0.0', ...module },
    { 'index.js': source('hello', '{}') })
  for (const signal of ['SIGINT', 'SIGKILL'] as const) {
    const { held, letGo } = registry.hold()
    const child = run(process.execPath,
      [cli, 'plugin', 'install', 'svc-plugin-hello', '--yes', '--home', home], { env: registry.env })
    await until('the half of a tarball', () => held() > 0)
    const below = descendants(child.pid)
    t.ok(below.length > 0, 'npm runs')
    child.process.kill(signal)
    const status = await child.ended
    t.notOk(existsSync(join(home, 'svc.yaml')), signal)
    t.same(JSON.parse((await svc(['plugin', 'ls', '--json', '--home', home])).stdout).plugins
      .filter(({ source }: { source: string }) => source !== 'bundled'), [])
    if (signal === 'SIGKILL') {
      for (const pid of below) try { process.kill(pid, 'SIGKILL') } catch { /* already gone */ }
    } else {
      t.equal(status, 130, child.stderr())
      t.match(child.stderr(), /interrupted/)
      t.same(inside(home), ['node_modules'], signal)
    }
    letGo()
  }
  t.match(await install(registry, home, 'svc-plugin-hello'), /^0 hello 1\.0\.0 is installed/)
  t.same(inside(home).filter((name) => name.startsWith('.')), [], 'what the killed one left is gone')
})

t.test('concurrent installs run one after the other', async (t) => {
  const registry = await startRegistry(t)
  const node = await startNode(t, { ready: false })
  for (const version of ['1.0.0', '2.0.0']) {
    await registry.publish({ name: 'svc-plugin-hello', version, ...module },
      { 'index.js': source('hello', `{ of: '${version}' }`) })
  }
  for (const name of ['one', 'two']) {
    await registry.publish({ name, version: '1.0.0', ...module }, { 'index.js': source(name, '{ n: 1 }') })
  }
  const wanted = ['svc-plugin-hello@1.0.0', 'svc-plugin-hello@2.0.0', 'one', 'two', 'one']
  const told = await Promise.all(wanted.map(async (what) => await install(registry, node.home, what)))
  for (const one of told) t.match(one, /^0 .*and running/)
  for (const path of ['/hello', '/one', '/two']) t.equal((await ask(node, path)).status, 200, path)
  t.equal(inside(node.home).length, 7, 'a folder and a record for each, and the way to svc')
})

t.test('the example of the documents is packed, published, installed and called', async (t) => {
  const registry = await startRegistry(t)
  const where = folder(t)
  const example = join(root, 'docs/examples/words')
  const pack = run('npm', ['pack', '--ignore-scripts', '--pack-destination', where, example], { cwd: where })
  t.equal(await pack.ended, 0, pack.stderr())
  const [tarball] = readdirSync(where)
  const json = JSON.parse(readFileSync(join(example, 'package.json'), 'utf8')) as
    { name: string, version: string }
  registry.publishTarball(json, readFileSync(join(where, tarball!)))
  const node = await startNode(t, { ready: false })
  for (const from of [json.name, join(where, tarball!)]) {
    t.match(await install(registry, node.home, from), /^0 words 1\.0\.0 is installed, and running/)
    const call = await svc(['call', 'words@1.0.0', '--text', 'one two three', '--json', '--home', node.home])
    t.match(call, { status: 0, stdout: /"words": ?3/ })
    t.match(await svc(['plugin', 'rm', 'words', '--home', node.home]), { status: 0 })
    t.match(await svc(['capabilities', 'words@1.0.0', '--home', node.home]), { status: 3 })
  }
})
