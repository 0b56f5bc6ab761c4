import t, { type Test } from 'tap'
import { appendFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ask } from './http.js'
import { cli, folder, run, sleep, startNode, svc, until } from './kit.js'

/** A plugin with one route, in its own folder, like those that `svc plugin new` creates. */
async function project (t: Test): Promise<string> {
  const dir = join(folder(t), 'demo')
  const { status, stderr } = await svc(['plugin', 'new', 'demo', '--dir', dir])
  t.equal(status, 0, stderr)
  writeFileSync(join(dir, 'index.js'), `import { definePlugin } from 'svc/plugin'
export default definePlugin({
  name: 'demo', version: '1.0.0', kernel: '^1.0.0', summary: 'Says a number.',
  authorities: { 'demo:say': 'Hear the number.' },
  routes: { say: { method: 'GET', url: '/demo', summary: 'Says it.', authority: 'read' } }
}, () => ({ routes: { say: () => ({ n: 1 }) } }))
`)
  return dir
}

/** Runs `svc plugin install`; returns its status and output. */
const install = async (home: string, source: string): Promise<string> => {
  const { status, stdout, stderr } = await svc(['plugin', 'install', source, '--yes', '--home', home])
  return `${status} ${stdout}${stderr}`
}

t.test('a plugin is installed, replaced, switched and removed while a stream runs', async (t) => {
  const dir = await project(t)
  const node = await startNode(t, { ready: false })
  const { home, token, url } = node
  const stream = await fetch(`${url}/state?follow=1`, { headers: { authorization: `Bearer ${token}` } })
  let events = 0
  let ended = false
  void (async () => {
    for await (const _ of stream.body!) events++
    ended = true
  })().catch(() => { ended = true })
  await until('the stream', () => events > 0)
  const status = async (): Promise<number> => (await ask(node, '/demo')).status

  t.match(await install(home, dir), /^0 demo 0\.1\.0 is installed, and running\.[\s\S]*demo:say/)
  t.match((await ask(node, '/demo')).json, { n: 1 })
  t.equal((await ask(node, '/healthz')).status, 200)

  writeFileSync(join(dir, 'index.js'), readFileSync(join(dir, 'index.js'), 'utf8').replace('n: 1', 'n: 2'))
  const pack = run('npm', ['pack', '--ignore-scripts', dir], { cwd: join(dir, '..') })
  t.equal(await pack.ended, 0, pack.stderr())
  t.match(await install(home, join(dir, '../svc-plugin-demo-0.1.0.tgz')), /^0 .*and running/)
  t.match((await ask(node, '/demo')).json, { n: 2 }, 'the newer one has taken its place')
  t.equal(readdirSync(join(home, 'plugins')).filter((name) => name.startsWith('demo-')).length, 2,
    'one folder, one record')

  t.match((await svc(['plugin', 'disable', 'demo', '--home', home])).stdout, /and stopped/)
  t.match((await ask(node, '/demo')).json, { error: { reason: 'plugin_disabled' } })
  const [name] = readdirSync(join(home, 'plugins')).filter((one) => /^demo-\w+$/.test(one))
  const file = join(home, 'plugins', name!, 'node_modules/svc-plugin-demo/index.js')
  const good = readFileSync(file)
  appendFileSync(file, '// not by the author\n')
  t.match((await svc(['plugin', 'enable', 'demo', '--home', home])).stdout, /index\.js has changed/)
  t.equal(await status(), 404)
  t.match((await ask(node, '/state')).text, /plugin_changed/)
  const told = async (): Promise<string> => (await ask(node, '/events?kinds=PluginChanged&limit=10')).text
  await until('the event', async () => /index\.js/.test(await told()))
  writeFileSync(file, good)

  writeFileSync(join(dir, 'index.js'), 'throw new Error("a broken plugin")\n')
  t.match(await install(home, dir), /^1 [\s\S]*a broken plugin/)
  t.match((await svc(['plugin', 'rm', 'demo', '--home', home])).stdout, /demo is removed/)
  t.match((await ask(node, '/demo')).json, { error: { reason: 'not_found' } })
  t.same(readdirSync(join(home, 'plugins')), ['node_modules'])
  t.notMatch(readFileSync(join(home, 'svc.yaml'), 'utf8'), /demo/)
  t.equal(ended, false, 'the stream went through all of it')
  await stream.body?.cancel().catch(() => {})
})

t.test('an install that is killed leaves the old one or the new one', async (t) => {
  const dir = await project(t)
  const home = join(folder(t), 'home')
  t.match(await install(home, dir), /^0 /)
  for (const ms of [150, 400, 700, 1000, 1300, 1600]) {
    appendFileSync(join(dir, 'index.js'), `// ${ms}\n`)
    const child = run(process.execPath, [cli, 'plugin', 'install', dir, '--yes', '--home', home])
    await sleep(ms)
    child.process.kill('SIGKILL')
    await child.ended
    const checked = await svc(['plugin', 'ls', '--home', home])
    t.match(checked.stdout, /demo +\S+ +(?!changed)/, `after ${ms} ms: ${checked.stdout}${checked.stderr}`)
    const module = /module: (\S+)/.exec(readFileSync(join(home, 'svc.yaml'), 'utf8'))![1]!
    t.ok(existsSync(join(home, module)))
  }
  t.match(await install(home, dir), /^0 /)
  t.equal(readdirSync(join(home, 'plugins')).filter((name) => name.startsWith('.incoming')).length, 0)
})
