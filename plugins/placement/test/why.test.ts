import t from 'tap'
import { linksOf } from '../cli/links.js'
import type { Card, Known, Ready, Row } from '../cli/links.js'
import { GIB, runnersAre } from './kit.js'
import { instanceOn, nodeOf, seenState, sendError, sendJson } from './verb-kit.js'

const ID = '11111111-1111-4111-8111-111111111111'
const copy = { nodeId: 'id-n1', nodeName: 'n1', kind: 'store', live: true }
const card: Card = {
  card: { engine: 'lm', tasks: ['chat'], backends: ['cpu', 'cuda'] }, origin: 'store', copies: [copy]
}
const fits: Row = { error: null, reason: null, details: {} }
const refused = (reason: string, details = {}): Row => ({ error: `it is ${reason}`, reason, details })

/** A chain that holds; `over` breaks it. */
function known (over: Partial<Known> = {}): Known {
  const state = seenState()
  state.instances[ID] = instanceOn(ID, 'acme/chat', ['id-n1', 'id-n2'])
  runnersAre(state, ID, { RunnerReady: {} })
  const ready = { ok: true, detail: '1.0 s ago' }
  return { modelId: 'acme/chat', card, state, previews: [fits], ready, ...over }
}

function starting (runner: Record<string, unknown>, more: object = {}): Known {
  const { state } = known()
  runnersAre(state, ID, runner)
  return known({ state: Object.assign(state, more) })
}
const failure = { instanceId: ID, errorCode: 'x', errorMessage: 'no library', affectedNodeIds: ['id-n2'] }
const bare = { state: seenState() }
const few = { nodes: [{ nodeId: 'id-n1', name: 'n1', backend: 'cpu', startLayer: 0, endLayer: 10,
  shareBytes: GIB, neededBytes: 2 * GIB, usableBytes: GIB }] }

const broken: [string, Known, string, RegExp, RegExp][] = [
  ['no card', known({ card: undefined }), 'card', /no model is called acme\/chat/, /^svc pull acme\/chat/],
  ['no copy', known({ card: { ...card, copies: [] } }), 'copy', /no node has its files/,
    /^svc pull acme\/chat$/],
  ['on its way', known({ card: { ...card, copies: [{ ...copy, kind: 'receiving' }] } }), 'copy',
    /on their way/, /^svc downloads/],
  ['lost copy', known({ card: { ...card, copies: [{ ...copy, live: false }] } }), 'copy', /only n1 had it/,
    /svc pull/],
  ['no backend', known({ previews: [refused('no_backend'), refused('no_backend')] }), 'backend',
    /it is no_backend/, /svc plugin ls/],
  ['not placed', known(bare), 'placement', /not placed on any node/, /^svc place acme\/chat$/],
  ['no way to place it', known({ ...bare, previews: [refused('insufficient_memory', few)] }), 'placement',
    /cannot be: it is insufficient_memory/, /--explain/],
  ['nothing known', known({ ...bare, previews: [] }), 'placement', /not placed/, /--explain/],
  ['loading', starting({ RunnerLoading: { layersLoaded: 1, totalLayers: 2 } }), 'runner',
    /starting \(n1: loads \(1 of 2\); n2: loads/, /svc ps/],
  ['failed', starting({ RunnerFailed: { errorMessage: '' } }, { instanceFailures: [failure] }), 'runner',
    /failed on n2: no library/, new RegExp(`svc stop ${ID}`)],
  ['no answer', known({ ready: { ok: false, detail: 'hangs' } }), 'request',
    /n1 gets no answer from it: hangs/, /svc events/]
]

t.test('the first broken link, with the command that mends it', async (t) => {
  for (const [name, facts, link, message, remedy] of broken) {
    const links = linksOf(facts)
    t.strictSame(links.map((one) => one.link), ['card', 'copy', 'backend', 'placement', 'runner', 'request'])
    const at = links.findIndex(({ ok }) => ok !== true)
    t.match(links[at], { link, ok: false, message, remedy }, name)
    t.ok(links.slice(at + 1).every(({ ok }) => ok === null), `${name}: nothing behind it is judged`)
  }
  t.ok(linksOf(known()).every(({ ok, remedy }) => ok === true && remedy === null))
  t.match(linksOf(known({ ready: null })).at(-1), { ok: true, message: 'not asked' })
})

t.test('of several instances the one that is furthest counts', async (t) => {
  const { state } = known()
  state.instances['zz'] = instanceOn('zz', 'acme/chat', ['id-n2'])
  state.instanceFailures = [{ ...failure, instanceId: 'zz' }]
  t.match(linksOf(known({ state })).find(({ link }) => link === 'runner'), { ok: true })
})

t.test('svc why', async (t) => {
  let facts = known()
  let ready: Ready = { ok: true, detail: 'last inference 1.0 s ago' }
  const node = await nodeOf(t, {
    'GET /models/acme/chat/card': (response) => {
      if (facts.card === undefined) sendError(response, 404, 'model_not_found')
      else sendJson(response, { model_id: 'acme/chat', ...facts.card })
    },
    'GET /state': (response) => { sendJson(response, facts.state) },
    'GET /instance/previews': (response) => { sendJson(response, { previews: facts.previews }) },
    'GET /readyz': (response) => {
      const checks = [{ name: 'master', ok: true, detail: 'x' }, { name: 'runners', ...ready }]
      if (ready.ok) sendJson(response, { ready: true, checks })
      else sendError(response, 503, 'not_ready', { checks })
    }
  })
  const good = await node.run(['why', 'acme/chat'])
  t.equal(good.out, 'ok  card       chat, runs on engine lm\nok  copy       on n1\n' +
    'ok  backend    cpu or cuda is offered\nok  placement  on n1, n2\n' +
    'ok  runner     every runner is ready\nok  request    last inference 1.0 s ago\n')
  t.match(good, { status: 0, err: 'acme/chat answers\n' })
  t.ok(node.asked.every(({ method }) => method === 'GET'))

  ready = { ok: false, detail: 'a canary inference was not answered in time' }
  t.match(await node.run(['why', 'acme/chat']), {
    status: 1, out: /no {2}request +n1 gets no answer from it: a canary.*\nnext: svc events/
  })
  facts = known({ card: undefined })
  const asked = node.asked.length
  const none = await node.run(['why', 'acme/chat'])
  t.match(none, { status: 1, out: /^no {2}card .*\n- {3}copy +not looked at\n[^]*next: svc pull acme\/chat/ })
  t.strictSame(node.asked.slice(asked).map(({ url }) => url), ['/models/acme/chat/card', '/state'])

  facts = known({ ...bare, previews: [refused('insufficient_memory', few)] })
  t.match(await node.run(['why', 'acme/chat']), {
    status: 1,
    err: /n1 \(cpu, layers 0 to 10\): needs 2\.0 GiB for 1\.0 GiB of weights, can use 1\.0 GiB: 1\.0/
  })
  const json = JSON.parse((await node.run(['why', 'acme/chat', '--json'])).out) as { links: object[] }
  t.match(json, { modelId: 'acme/chat', links: [{ link: 'card', ok: true }] })
  t.match(json.links[3], { link: 'placement', ok: false, remedy: /svc place/ })
  t.equal((await node.run(['why', 'chat'])).status, 2)
})
