/** Models of which only one fits into the memory of a node: requests load one in place of another. */
import t, { type Test } from 'tap'
import { ask, open, refusal, type Answer } from './http.js'
import { askWithin, homeOf, instancesCluster, instancesOf, placeOn, view } from './instances-kit.js'
import { fixture, secondsSince, startNode, svc, until, type TestNode } from './kit.js'

const [LEFT, RIGHT, SLOW] = ['test/left', 'test/right', 'test/slow'] as const
/** RAM for one of the models, MiB. */
const memory_mib = 800

const plugins = (wait_seconds: number): Record<string, Record<string, unknown>> => ({
  swap: { module: fixture('swap.mjs') },
  placement: { autoplace: [], on_demand: true, wait_seconds },
  runners: { memory_mib }
})

const body = (model: string, stream: boolean, content: unknown = 'who?'): object =>
  ({ model, stream, messages: [{ role: 'user', content }] })

const chat = async (at: TestNode, model: string, stream = false, content?: unknown): Promise<Answer> =>
  await askWithin(at, '/v1/chat/completions', { body: body(model, stream, content) })

/** Asks the model for its name; also as a stream. */
async function says (t: Test, at: TestNode, model: string, stream: boolean): Promise<string> {
  const answer = await chat(at, model, stream)
  t.equal(answer.status, 200, answer.text)
  t.match(answer.text, `"content":"${model}"`)
  if (stream) t.match(answer.text, /data: \[DONE\]\n\n$/)
  return answer.text
}

const loadedAt = async (at: TestNode): Promise<string[]> => {
  const { instances } = await view(at)
  return Object.values(instances).filter(({ RingInstance: { drainUntil } }) => drainUntil === undefined)
    .map(({ RingInstance: { shardAssignments: { modelId } } }) => modelId)
}

t.test('one node', async (t) => {
  const node = await startNode(t, { config: { plugins: plugins(10) } })
  await until('the list of models', async () => (await chat(node, RIGHT)).status === 200)

  await t.test('requests for two models take turns, streamed and whole', async (t) => {
    const start = performance.now()
    for (const [n, model] of [LEFT, RIGHT, LEFT, RIGHT, LEFT].entries()) {
      await says(t, node, model, n % 2 === 0)
      t.strictSame(await loadedAt(node), [model])
    }
    t.comment(`${secondsSince(start)} s for five loads`)
    const all = await Promise.all([0, 1, 2, 3].map(async (n) => await chat(node, RIGHT, n % 2 === 0)))
    t.strictSame(all.map(({ status }) => status), [200, 200, 200, 200])
    t.strictSame(await loadedAt(node), [RIGHT], 'requests at the same time share one load')
  })

  await t.test('a stream tells how the load proceeds; bad input is refused before it', async (t) => {
    const bad = await chat(node, SLOW, true, 7)
    t.strictSame([bad.status, refusal(bad)?.reason], [400, 'invalid_request'])
    t.strictSame(await loadedAt(node), [RIGHT])
    t.match(await says(t, node, SLOW, true), /: loading \d+ %, about \d+ s\n\n/)
  })

  await t.test('svc place --dry-run says what would be unloaded', async (t) => {
    const told = await svc(['place', LEFT, '--dry-run', '--home', node.home, '--url', node.url])
    t.not(told.status, 0)
    t.match(told.stderr, /would unload.*\n *test\/slow \(.*without a request for \d+ s/)
    t.strictSame(await loadedAt(node), [SLOW])
  })

  await t.test('an open stream protects its model; others get 503, or an error event', async (t) => {
    await says(t, node, LEFT, false)
    const stream = await open(node, '/v1/chat/completions', { body: body(LEFT, true, 'endless') })
    t.equal(stream.statusCode, 200)
    const [whole, events] = await Promise.all([chat(node, RIGHT), chat(node, RIGHT, true)])
    t.strictSame([whole.status, refusal(whole)?.reason], [503, 'not_ready'])
    t.match(whole.headers['retry-after'], /^\d+$/)
    t.equal(events.status, 200)
    t.match(events.text, /: queued\n\n[^]*data: {"error":{[^\n]*waits for memory/)
    t.strictSame(await loadedAt(node), [LEFT])
    t.notOk(stream.closed)
    stream.destroy()
    await says(t, node, RIGHT, true)
  })

  await t.test('Ollama\'s keep_alive', async (t) => {
    const ollama = async (model: string, keep_alive: unknown): Promise<Answer> =>
      await ask(node, '/ollama/api/chat', { body: { ...body(model, false), keep_alive } })
    t.match((await ollama(LEFT, '10m')).text, `"content":"${LEFT}"`)
    t.strictSame(await loadedAt(node), [LEFT], 'it makes room too')
    t.match((await ollama(LEFT, 0)).text, `"content":"${LEFT}"`)
    await until('it to be unloaded', async () => (await loadedAt(node)).length === 0)
  })

  await t.test('what was stopped stays stopped', async (t) => {
    await says(t, node, LEFT, false)
    await svc(['stop', '-y', LEFT, '--home', node.home, '--url', node.url])
    const answer = await chat(node, LEFT)
    t.match([answer.status, refusal(answer)?.message], [404, /stopped/])
    t.strictSame(await loadedAt(node), [])
  })
})

t.test('kill -9 of the node that loads a model for a request', async (t) => {
  const cluster = await instancesCluster(t, { plugins: plugins(60) })
  const { master } = await cluster.agreed()
  // This one stays, so the master does not load the other: its death would end all requests.
  await placeOn(cluster, master, LEFT)
  const asked = chat(master.node, SLOW, true)
  const [ring] = await until('it to load', async () => {
    const found = await instancesOf(master.node, SLOW)
    return found.length > 0 ? found : null
  })
  const home = homeOf(cluster, ring!)
  t.not(home, master)
  await until('some progress', async () =>
    JSON.stringify((await view(master.node)).runners).includes('Loading'))
  await home.kill()
  const { status, text } = await asked
  t.match([status, text], [200, `"content":"${SLOW}"`], 'the wait goes on elsewhere')
  const rings = await instancesOf(master.node, SLOW)
  t.equal(rings.length, 1)
  t.not(homeOf(cluster, rings[0]!), home)
})
