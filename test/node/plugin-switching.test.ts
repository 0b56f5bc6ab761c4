import t from 'tap'
import { appendFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startCluster } from './cluster-kit.js'
import { ask, hear, open, stream } from './http.js'
import { folder, startNode, svc, until } from './kit.js'
import { freePorts } from './ports.js'
import { sockets } from './proc.js'
import { heapOf, inspectable } from '../tools/heap.js'
import type { Test } from 'tap'
import type { Stream } from './http.js'
import type { TestNode } from './kit.js'

const manifest = (name: string, more = ''): string =>
  `{ name: '${name}', version: '1.0.0', kernel: '^1.0.0', summary: 'x'${more} }`
const route = (name: string, url: string, more = ''): string =>
  `${name}: { method: 'GET', url: '${url}', summary: 'x', authority: 'read'${more} }`

/** Source texts of plugins without imports. */
const sources: Record<string, string> = {
  // Its stream says a number every 20 ms.
  other: `export default {
    manifest: ${manifest('other', `, routes: { ${route('hear', '/other', ', stream: true')} }`)},
    start: () => ({ routes: { async hear (request) {
      const stream = request.open({ contentType: 'text/plain' })
      for (let n = 0; !request.signal.aborted && !stream.closed; n++) {
        await stream.write(n + ' ')
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    } } }) }`,
  ticker: `export default { manifest: ${manifest('ticker', `, routes: {
      ${route('tick', '/tick')}, ${route('wait', '/tick/wait')} }, capabilities: { ticks: { id: 'ticks',
      version: '1.0.0', title: 'Ticks', description: 'Ticks.', io_mode: 'server_streaming', annotations: {},
      input_schema: { type: 'object' }, output_chunk_schema: { type: 'object' } } }`)},
    start: (ctx) => {
      ctx.every('nothing', 1000, () => {})
      return { routes: { tick: () => ({ n: 1 }), wait: () => new Promise(() => {}) },
        invoke: { async * ticks (_input, { signal }) {
          for (let n = 0; ; n++) {
            yield { payload: { n } }
            await new Promise((resolve) => setTimeout(resolve, 20))
            signal.throwIfAborted()
          }
        } } }
    } }`,
  needy: `export default { manifest: ${manifest('needy', ', requires: ["ticker"]')}, start: () => ({}) }`,
  hangs: `export default { manifest: ${manifest('hangs', `, routes: { ${route('never', '/never')} }`)},
    start: () => new Promise(() => {}) }`
}

/** Writes plugins into a folder; what svc.yaml says of them. */
function modules (t: Test, ...names: string[]): Record<string, { module: string }> {
  const where = folder(t)
  return Object.fromEntries(names.map((name) => {
    const module = join(where, `${name}.mjs`)
    writeFileSync(module, sources[name]!)
    return [name, { module }]
  }))
}

const turn = async (node: TestNode, name: string, enabled: boolean): Promise<unknown> =>
  (await ask(node, `/v1/plugins/${name}`, { body: { enabled } })).json

/** A stream of `other`, and how many bytes have come. */
async function listen (t: Test, node: TestNode): Promise<() => number> {
  const response = await open(node, '/other')
  let bytes = 0
  response.on('data', (part: Buffer) => { bytes += part.length })
  t.teardown(() => { response.destroy() })
  await until('the first of the stream', () => bytes > 0)
  return () => bytes
}

t.test('a switch in a cluster ends what is of the plugin, on every node, and nothing else', async (t) => {
  const both = { placement: { autoplace: [] }, ...modules(t, 'other') }
  const ticker = modules(t, 'ticker')
  const { members } = await startCluster(t, {
    nodes: 2, configOf: (number) => ({ plugins: number === 1 ? { ...both, ...ticker } : both })
  })
  const [has, passes] = members.map(({ node }) => node) as [TestNode, TestNode]
  const through = { ...passes, revision: has.revision }
  const others = [await listen(t, has), await listen(t, passes)]
  const goesOn = async (): Promise<void> => {
    const before = others.map((bytes) => bytes())
    await until('more of the others', () => others.every((bytes, i) => bytes() > before[i]! + 20))
  }
  const passedOn = async (): Promise<Stream> =>
    await stream(through, 'ticks@1.0.0', {}, { extra: { target_node: has.nodeId } })
  for (let round = 0; round < 3; round++) {
    const near = await stream(has, 'ticks@1.0.0', {})
    const far = await passedOn()
    for (const one of [near, far]) await one.frames.next()
    const waiting = ask(has, '/tick/wait')
    t.match(await turn(has, 'ticker', false), { in_effect: true, why: null, restart_needed: false })
    t.match((await ask(has, '/tick')).json, { error: { reason: 'plugin_disabled', code: 404 } })
    t.match((await waiting).json, { error: { reason: 'plugin_disabled' } })
    for (const one of [near, far]) {
      const { last, terminals } = await hear(one)
      t.match([terminals, last?.header], [1, { kind: 'failed', error: { reason: 'plugin_disabled' } }])
    }
    await goesOn()
    t.match(await turn(has, 'ticker', true), { in_effect: true, why: null })
    t.match((await ask(has, '/tick')).json, { n: 1 })
    await goesOn()
  }
  const again = await passedOn()
  await again.frames.next()
  again.leave()
})

t.test('fifty switches of a real node leave nothing behind', async (t) => {
  const [port] = await freePorts(1)
  const node = await startNode(t, {
    config: { plugins: { placement: { autoplace: [] }, ...modules(t, 'other', 'ticker') } },
    env: inspectable(port!), ready: false
  })
  const bytes = await listen(t, node)
  const rounds = async (many: number): Promise<void> => {
    for (let i = 0; i < many; i++) {
      for (const enabled of [false, true]) {
        const { in_effect: done } = await turn(node, 'ticker', enabled) as { in_effect: boolean }
        const { status } = await ask(node, '/tick')
        if (!done || status !== (enabled ? 200 : 404)) throw new Error(`${status} when enabled is ${enabled}`)
      }
    }
  }
  await rounds(20)
  const [before, open] = [await heapOf(node.pid, port!), sockets(node.pid)]
  await rounds(50)
  const grown = (await heapOf(node.pid, port!) - before) / 50
  // Of these some 15 KB are lines and events that are kept for a while.
  t.ok(grown < 100_000, `${Math.round(grown)} bytes more for each switch off and on`)
  t.ok(Math.abs(sockets(node.pid) - open) <= 2, 'no socket is left open')
  t.notMatch(node.child.stderr(), /Warning/)
  const heard = bytes()
  await until('more of the other stream', () => bytes() > heard)
})

t.test('settings switch a plugin at once; what cannot be, or does not start, is said by name', async (t) => {
  const { hangs, ...rest } = modules(t, 'other', 'ticker', 'needy', 'hangs')
  const node = await startNode(t, { ready: false, config: { plugins: {
    placement: { autoplace: [] }, ...rest, hangs: { ...hangs, enabled: false }
  } } })
  const { home } = node
  const set = async (name: string, value: boolean): Promise<string> => {
    const { status, stdout, stderr } =
      await svc(['config', 'set', `plugins.${name}.enabled`, String(value), '--home', home])
    return `${status} ${stdout}${stderr}`
  }
  const file = (): string => readFileSync(join(home, 'svc.yaml'), 'utf8')
  const put = async (change: Record<string, unknown>): Promise<unknown> => {
    const { revision } = (await ask(node, '/config')).json as { revision: string }
    return (await ask(node, '/config', { method: 'PUT', body: { revision, set: change } })).json
  }
  t.match(await set('ticker', false), /^0 .*\nA restart is needed, since it switches "needy" with it\./)
  t.equal((await ask(node, '/tick')).status, 200)
  t.match(await set('ticker', true), /^0 .*and in effect/)
  t.match(await put({ 'plugins.ticker.enabled': false, 'plugins.needy.enabled': false }), {
    restart_needed: false,
    plugins: [
      { name: 'needy', in_effect: true }, { name: 'ticker', enabled: false, in_effect: true, why: null }
    ]
  })
  t.equal((await ask(node, '/tick')).status, 404)
  t.match((await ask(node, '/config')).json, { restart_needed: false })
  t.notMatch((await ask(node, '/state')).text, /restart_needed/)
  for (const [path, value] of [['tracing.otlp_url', 'https://x.example'], ['name', '${env.PATH}'],
    ['engines.url', 'https://x.example'], ['plugins.ticker.module', './other.mjs'],
    ['plugins.runners.engine_options', { 'llama-server': { serverBinary: '/bin/sh' } }]] as const) {
    t.match(await put({ [path]: value }),
      { error: { reason: 'invalid_request', message: /svc\.yaml/ } }, path)
  }
  t.match(await put({ name: 'attic' }), { restart_needed: true, plugins: [] })

  const before = file()
  t.match(await put({ 'plugins.ticker.enabled': true, 'plugins.hangs.enabled': true, name: 'cellar' }), {
    error: { reason: 'plugin_failed', message: /"hangs" failed to start: start\(\) took over 30 seconds/ }
  })
  t.equal(file(), before)
  t.equal((await ask(node, '/tick')).status, 404, 'what had started is taken back')
  t.match((await ask(node, '/never')).json, { error: { reason: 'plugin_disabled' } })
})

t.test('installed plugins that were changed do not start; each is named and told', async (t) => {
  const where = folder(t)
  const home = join(where, 'home')
  const names = ['other', 'ticker']
  for (const name of names) {
    const project = join(where, name)
    mkdirSync(project)
    const json = { name: `svc-plugin-${name}`, version: '1.0.0', type: 'module', exports: './index.js' }
    writeFileSync(join(project, 'package.json'), JSON.stringify(json))
    writeFileSync(join(project, 'index.js'), sources[name]!)
    t.match(await svc(['plugin', 'install', project, '--yes', '--home', home]), { status: 0 })
    const kept = readdirSync(join(home, 'plugins')).find((one) => new RegExp(`^${name}-\\w+$`).test(one))!
    const file = join(home, 'plugins', kept, 'node_modules', json.name, 'index.js')
    appendFileSync(file, '// not by the author\n')
  }
  const node = await startNode(t, { home, ready: false })
  const { nodeHealth } = (await ask(node, '/state')).json as
    { nodeHealth: Record<string, { reasons: { code: string, message: string }[] }> }
  const told = Object.values(nodeHealth).flatMap(({ reasons }) => reasons)
    .find(({ code }) => code === 'plugin_changed')?.message
  for (const name of names) t.match(told, new RegExp(`"${name}" is not started: .*index\\.js has changed`))
  const events = async (): Promise<string> => (await ask(node, '/events?kinds=PluginChanged&limit=10')).text
  await until('both events', async () => {
    const text = await events()
    return names.every((name) => text.includes(`"plugin":"${name}"`))
  })
  t.match((await ask(node, '/tick')).json, { error: { reason: 'plugin_disabled' } })
  const ls = await svc(['plugin', 'ls', '--home', home])
  for (const name of names) t.match(ls.stdout, new RegExp(`${name} +1\\.0\\.0 +changed`))
  t.match(ls.stderr, /svc plugin verify ticker --accept/)
  t.match(await svc(['plugin', 'verify', 'ticker', '--accept', '--home', home]), { status: 0 })
  t.match(await turn(node, 'ticker', true), { in_effect: true })
  t.match((await ask(node, '/tick')).json, { n: 1 })
})
