import t from 'tap'
import { GIB } from './kit.js'
import { nodeOf, seenState, sendError, sendJson } from './verb-kit.js'

const NAMES = ['card', 'copy', 'backend', 'placement', 'runner', 'request']
const few = { nodes: [{ nodeId: 'id-n1', name: 'n1', backend: 'cpu', startLayer: 0, endLayer: 10,
  shareBytes: GIB, neededBytes: 2 * GIB, usableBytes: GIB }] }

function chain (broken: string | null, message = '', remedy = ''): object {
  const at = broken === null ? NAMES.length : NAMES.indexOf(broken)
  return {
    model_id: 'acme/chat',
    available: broken === null,
    broken_link: broken,
    links: NAMES.map((link, i) => i < at
      ? { link, ok: true, message: `${link} is there`, remedy: null }
      : i === at
        ? { link, ok: false, message, remedy }
        : { link, ok: null, message: 'not looked at', remedy: null })
  }
}

const fits = { error: null, reason: null, details: {} }
const refused = { error: 'n1: too little', reason: 'insufficient_memory', details: few }
type Response = Parameters<typeof sendJson>[0]

let body = chain(null)
let previews: object[] = []
let ready: { ok: boolean, detail: string } = { ok: true, detail: 'last inference 1.0 s ago' }
const answers = {
  'GET /models/acme/chat/availability': (response: Response) => { sendJson(response, body) },
  'GET /state': (response: Response) => { sendJson(response, seenState()) },
  'GET /instance/previews': (response: Response) => {
    if (previews.length === 0) sendError(response, 400, 'model_unknown')
    else sendJson(response, { previews })
  },
  'GET /readyz': (response: Response) => {
    const checks = [{ name: 'master', ok: true, detail: 'x' }, { name: 'runners', ...ready }]
    if (ready.ok) sendJson(response, { ready: true, checks })
    else sendError(response, 503, 'not_ready', { checks })
  }
}

t.test('svc why: a chain that holds is asked for work', async (t) => {
  const node = await nodeOf(t, answers)
  const good = await node.run(['why', 'acme/chat'])
  t.equal(good.out, [...NAMES.slice(0, 5).map((name) => `ok  ${name.padEnd(9)}  ${name} is there`),
    'ok  request    last inference 1.0 s ago', ''].join('\n'))
  t.match(good, { status: 0, err: 'acme/chat answers\n' })
  t.strictSame(node.asked.map(({ method, url }) => `${method} ${url}`),
    ['GET /models/acme/chat/availability', 'GET /readyz?model=acme%2Fchat', 'GET /state'])

  ready = { ok: false, detail: 'a canary inference was not answered in time' }
  t.match(await node.run(['why', 'acme/chat']), {
    status: 1,
    out: /no {2}request +this node gets no answer from it: a canary.*\nnext: Restart it: `svc stop/
  })
})

t.test('svc why: the first broken link, with what mends it', async (t) => {
  const node = await nodeOf(t, answers)
  body = chain('card', 'no model is called acme/chat here', 'Bring it: `svc pull acme/chat`.')
  const none = await node.run(['why', 'acme/chat'])
  t.match(none,
    { status: 1, out: /^no {2}card .*\n- {3}copy +not looked at\n[^]*next: Bring it: `svc pull acme/ })
  t.strictSame(node.asked.map(({ url }) => url), ['/models/acme/chat/availability'], 'nothing else is asked')
  t.equal((await node.run(['why', 'a chat'])).status, 2)
})

t.test('svc why: what cannot be placed shows the sums of memory', async (t) => {
  const node = await nodeOf(t, answers)
  body = chain('placement', 'it waits for a node: n1: too little', 'It is placed as soon as it fits.')
  previews = [refused]
  const waits = await node.run(['why', 'acme/chat'])
  t.match(waits, { status: 1, out: /no {2}placement {2}it waits for a node: n1: too little/ })
  t.equal(waits.err, 'it cannot be placed now: n1: too little\n' +
  'n1 (cpu, layers 0 to 10): needs 2.0 GiB for 1.0 GiB of weights, can use 1.0 GiB: 1.0 GiB too little\n')
  const json = JSON.parse((await node.run(['why', 'acme/chat', '--json'])).out) as { links: object[] }
  t.match(json, { modelId: 'acme/chat', links: [{ link: 'card', ok: true }] })
  t.match(json.links[3], { link: 'placement', ok: false, sums: [/cannot be placed/, /too little/] })
  previews = [refused, fits]
  t.match(await node.run(['why', 'acme/chat']), { status: 1, err: /^$/ }, 'it fits in another way')
  previews = []
  t.match(await node.run(['why', 'acme/chat']), { status: 1, err: /^$/ }, 'nobody can say')
})
