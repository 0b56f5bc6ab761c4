import t from 'tap'
import { copy, nodeOf, sendError, sendJson, stateOf, type Answers, type Rig } from './verb-kit.js'

const removable = (...ids: string[]): Answers => Object.fromEntries(ids.map((modelId) =>
  [`DELETE /store/models/${modelId}`, (response) => { sendJson(response, { modelId, deleted: true }) }]))

async function store (t: Parameters<typeof nodeOf>[0], more: Answers = {}): Promise<Rig> {
  return await nodeOf(t, {
    'GET /models/copies': (response) => {
      sendJson(response, { copies: [copy({ kind: 'store' }), copy({ nodeId: 'n2', nodeName: 'node2' })] })
    },
    ...removable('acme/x', 'acme/y'),
    'DELETE /store/models/acme/busy': (response) => { sendError(response, 409, 'model_in_use') },
    ...more
  })
}

t.test('svc rm', async (t) => {
  const node = await store(t)
  const run = node.run
  t.match(await run(['rm', 'acme/x']), { status: 0, out: 'acme/x was removed from the store\n', err: /^$/ })
  t.match(await run(['rm', '-y', 'acme/x', 'acme/y', 'acme/x']),
    { status: 0, out: 'acme/x was removed from the store\nacme/y was removed from the store\n' })
  t.same(node.requests(), ['x', 'x', 'y'].map((name) => `DELETE /store/models/acme/${name}`))
  t.match(await run(['rm', 'acme/none']), { status: 3, out: /^$/, err: /404 not_found/ })
  t.match(await run(['rm', 'acme/busy']), { status: 1, err: /model_in_use/ })
  const mixed = await run(['rm', 'acme/none', 'acme/y', 'acme/busy'])
  t.match(mixed, { status: 3, out: 'acme/y was removed from the store\n' })
  t.match(mixed.err, /acme\/none: it is not_found[^]*acme\/busy: [^]*2 of 3 models could not be removed/)
  const json = await run(['rm', 'acme/y', 'acme/none', '--json'])
  t.equal(json.status, 3)
  t.match(JSON.parse(json.out), { models: [{ modelId: 'acme/y', deleted: true, error: null },
    { modelId: 'acme/none', deleted: false, error: /not_found/ }] })
  const before = node.asked.length
  t.equal((await run(['rm', 'acme/y', '../x'])).status, 2)
  t.equal((await run(['rm'])).status, 2)
  t.equal(node.asked.length, before, 'one wrong name: nothing is removed')
})

t.test('svc rm asks on a terminal', async (t) => {
  const node = await store(t)
  for (const typed of ['n\n', '\n', '', 'yesterday\n']) {
    const ran = await node.run(['rm', 'acme/x'], { typed })
    t.match(ran, { status: 1, out: /^$/, err: /nothing was removed/ }, JSON.stringify(typed))
  }
  t.notOk(node.requests().some((one) => one.startsWith('DELETE')))
  const yes = await node.run(['rm', 'acme/x'], { typed: 'y\n' })
  t.match(yes.err,
    /^acme\/x {2}2\.0 KiB {2}store@node1, staged@node2\nRemove acme\/x from the store, .*\[y\/N\] /)
  t.equal(yes.out, 'acme/x was removed from the store\n')
  const two = await node.run(['rm', 'acme/x', 'acme/y'], { typed: 'YES\n' })
  t.match(two.err, /acme\/y {2}- {2}-\nRemove 2 models from the store/)
  t.equal(two.status, 0)
  t.equal((await node.run(['rm', '-y', 'acme/x'], { typed: 'n\n' })).err, '', '-y never asks')
})

t.test('Ctrl-C at the question', async (t) => {
  const node = await store(t)
  const stop = new AbortController()
  const { stderr, done } = node.sit(['rm', 'acme/x'], { signal: stop.signal })
  await stderr.shows(/\[y\/N\]/)
  stop.abort()
  t.equal((await done).status, 130)
  t.notOk(node.requests().some((one) => one.startsWith('DELETE')))
})

const purged = { commandId: 'c1', message: 'done', nodes: [
  { nodeId: 'n1', removed: ['acme/x', 'acme/z'], skippedInUse: [], freedBytes: 4096, error: null },
  { nodeId: 'n9', removed: [], skippedInUse: ['acme/y'], freedBytes: 0, error: null }] }

const dry = { commandId: 'c2', message: 'would', nodes: [
  { nodeId: 'n1', removed: ['acme/half', 'acme/x'], skippedInUse: ['acme/y'], freedBytes: 3072, error: null,
    copies: [
      { modelId: 'acme/x', sizeBytes: 2048, freeableBytes: 2048, lastUsedEpochSeconds: 1, inUse: false,
        overBudget: true },
      { modelId: 'acme/y', sizeBytes: 2048, freeableBytes: 2048, lastUsedEpochSeconds: 2, inUse: true,
        overBudget: false }
    ] },
  { nodeId: 'n2', removed: ['acme/x'], skippedInUse: [], freedBytes: 2048, error: null, copies: [
    { modelId: 'acme/x', sizeBytes: 2048, freeableBytes: 2048, lastUsedEpochSeconds: 1, inUse: false,
      overBudget: false }
  ] }] }
const idle = { commandId: 'c3', message: 'would', nodes: [
  { nodeId: 'n1', removed: [], skippedInUse: [], freedBytes: 0, error: null, copies: [] }] }

async function staged (
  t: Parameters<typeof nodeOf>[0], answer: object = purged, preview: object = dry
): Promise<Rig> {
  return await nodeOf(t, {
    'GET /state': (response) => { sendJson(response, stateOf()) },
    'POST /store/purge-staging': (response, { body }) => {
      sendJson(response, (body as { dryRun?: boolean }).dryRun === true ? preview : answer)
    }
  })
}

t.test('svc purge -y', async (t) => {
  const node = await staged(t)
  const ran = await node.run(['purge', '-y'])
  t.equal(ran.status, 0)
  t.equal(ran.out,
    'NODE   REMOVED        SKIPPED  FREED    ERROR\n' +
    'node1  acme/x acme/z  -        4.0 KiB  -\n' +
    'n9     -              acme/y   0 B      -\n')
  t.same(node.asked[0]!.body, {}, 'the route wants a body')
  t.same(JSON.parse((await node.run(['purge', 'acme/x', '-y', '--json'])).out), purged)
  t.same(node.asked.at(-1)!.body, { modelId: 'acme/x' })
  const broken = { ...purged, nodes: [{ ...purged.nodes[0], error: 'EROFS' }, purged.nodes[1]] }
  t.match(await (await staged(t, broken)).run(['purge', '-y']), { status: 1, out: /4\.0 KiB {2}EROFS/ })
})

t.test('svc purge shows what would go, and asks', async (t) => {
  const node = await staged(t)
  const removals = (): unknown[] => node.asked.filter(({ method }) => method === 'POST')
    .map(({ body }) => body).filter((body) => (body as { dryRun?: boolean }).dryRun !== true)
  const table = 'NODE   MODEL      SIZE     IN USE\n' +
    'node1  acme/x     2.0 KiB  no, evicted next\n' +
    'node1  acme/y     2.0 KiB  yes, stays\n' +
    'node1  acme/half  -        no, interrupted transfer\n' +
    'node2  acme/x     2.0 KiB  no\n'
  t.match(await node.run(['purge', '--dry-run']), { status: 0, out: table, err: /^$/ })
  t.match(await node.run(['purge', '--dry-run', '-y']), { status: 0, out: table }, 'dry before yes')
  t.same(JSON.parse((await node.run(['purge', 'acme/y', '--dry-run', '--json'])).out), dry)
  t.same(node.asked.at(-1)!.body, { modelId: 'acme/y', dryRun: true })
  t.match(await node.run(['purge']), { status: 2, out: /^$/, err: /add -y, or --dry-run/ })
  const no = await node.run(['purge'], { typed: 'n\n' })
  t.match(no, { status: 1, out: table, err: /nothing was removed/ })
  t.match(no.err, /^Remove 3 staged copies on 2 nodes to free 5\.0 KiB\? Copies in use stay\. \[/)
  t.same(removals(), [])
  t.equal((await node.run(['purge'], { typed: 'y\n' })).status, 0)
  t.same(removals(), [{}])
  const json = await node.run(['purge', '--json'], { typed: 'y\n' })
  t.same(JSON.parse(json.out), purged, 'one value only')
  t.equal((await node.run(['purge', 'x'])).status, 2)
})

t.test('svc purge where there is nothing, and where a node cannot say', async (t) => {
  const node = await staged(t, purged, idle)
  t.match(await node.run(['purge', 'acme/none'], { typed: 'y\n' }),
    { status: 0, out: /^$/, err: /nothing to purge/ })
  t.equal(node.asked.filter(({ method }) => method === 'POST').length, 1, 'only the preview')
  t.same(JSON.parse((await node.run(['purge', 'acme/none', '--json'], { typed: 'n\n' })).out), purged,
    'nothing to ask about')
  const silent = { ...idle, nodes: [{ ...idle.nodes[0]!, error: 'does not answer' }] }
  t.match(await (await staged(t, purged, silent)).run(['purge', '--dry-run']),
    { status: 1, out: /^$/, err: 'node1: does not answer\n' })
})
