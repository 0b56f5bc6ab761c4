import t, { type Test } from 'tap'
import { appendFileSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startCluster } from './cluster-kit.js'
import { ask, readStream, open, stream, type Stream } from './http.js'
import { folder, startNode, svc, until, type TestNode } from './kit.js'

const manifest = (name: string, more = ''): string =>
  `{ name: '${name}', version: '1.0.0', kernel: '^1.0.0', summary: 'x'${more} }`
const route = (name: string, url: string, more = ''): string =>
  `${name}: { method: 'GET', url: '${url}', summary: 'x', authority: 'read'${more} }`

/** Plugin sources without imports, by plugin name. */
const sources: Record<string, string> = {
  // This plugin's stream sends a number every 20 ms.
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
    } }`
}

/** Writes these plugins into a folder; returns their settings for svc.yaml. */
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

/** Opens a stream from the plugin `other`; returns a function that gives the number of bytes so far. */
async function listen (t: Test, node: TestNode): Promise<() => number> {
  const response = await open(node, '/other')
  let bytes = 0
  response.on('data', (part: Buffer) => { bytes += part.length })
  t.teardown(() => { response.destroy() })
  await until('the first of the stream', () => bytes > 0)
  return () => bytes
}

t.test('switching a plugin off ends its work on every node, and nothing else', async (t) => {
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
    await until('more bytes from the others', () => others.every((bytes, i) => bytes() > before[i]! + 20))
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
      const { last, terminals } = await readStream(one)
      t.match([terminals, last?.header], [1, { kind: 'failed', error: { reason: 'plugin_disabled' } }])
    }
    await goesOn()
    t.match(await turn(has, 'ticker', true), { in_effect: true, why: null })
    t.match((await ask(has, '/tick')).json, { n: 1 })
    await goesOn()
  }
  const again = await passedOn()
  await again.frames.next()
  again.abort()
})

t.test('modified installed plugins do not start, and each is named', async (t) => {
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
  t.match(ls.stderr, /`svc plugin install` of a good copy/)
  t.match(await svc(['plugin', 'install', join(where, 'ticker'), '--yes', '--home', home]), { status: 0 })
  t.match(await turn(node, 'ticker', true), { in_effect: true })
  t.match((await ask(node, '/tick')).json, { n: 1 })
})
