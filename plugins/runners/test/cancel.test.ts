import { Readable } from 'node:stream'
import t from 'tap'
import {
  kernelError, type Caller, type CapabilityCall, type MemberRequest, type MemberResponse, type NodeView
} from '../../../kernel/index.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { cancelHandler } from '../routing/cancel.js'
import { runTask } from '../service.js'
import { hear, pair, task, VOICE } from './remote-kit.js'

const caller: Caller = { id: 'ann', mode: 'direct', authorities: new Set(['invoke']) }
const view = (installId: string, more: Partial<NodeView> = {}): NodeView => {
  const names = { installId, nodeId: `n-${installId}`, name: `name-${installId}` }
  return { ...names, self: false, live: true, ...more } as NodeView
}

type Answer = (request: MemberRequest) => Promise<MemberResponse> | MemberResponse

const json = (status: number, body: unknown): MemberResponse =>
  ({ status, headers: {}, body: Readable.from([Buffer.from(JSON.stringify(body))]) })
const refusing = (status: number, reason: string): Answer => () => json(status, { error: { reason } })
const cancels: Answer = () => json(200, { message: 'x', command_id: 'C' })
const unknown = refusing(404, 'command_unknown')
const breaks: Answer = () => { throw kernelError('unreachable') }

function node (others: Record<string, Answer>, here: () => boolean = () => false) {
  const asked: { to: string, request: MemberRequest }[] = []
  const handler = cancelHandler({
    commands: { cancel: here },
    clock: manualClock(),
    cluster: {
      nodes: () => [view('me', { self: true }), view('away', { live: false }),
        ...Object.keys(others).map((id) => view(id))],
      async request (to, request) {
        asked.push({ to, request })
        return await others[to]!(request)
      }
    }
  })
  const cancel = async (member: string | null = null): Promise<unknown> => await handler({
    params: { command_id: 'C/1' }, caller, member, signal: new AbortController().signal
  })
  return { asked, cancel }
}

t.test('a command of this node is cancelled here', async (t) => {
  const { asked, cancel } = node({ b: cancels }, () => true)
  t.same(await cancel(), { message: 'The command was cancelled.', command_id: 'C/1' })
  t.same(asked, [])
})

t.test('another caller\'s command of this node needs the grant', async (t) => {
  const { cancel } = node({ b: cancels }, () => { throw kernelError('missing_grant') })
  await t.rejects(cancel(), { reason: 'missing_grant', status: 403 } as never)
})

t.test('a command of another node is cancelled there, in the name of who asks', async (t) => {
  const { asked, cancel } = node({ b: unknown, c: cancels, d: breaks })
  t.match(await cancel(), { command_id: 'C/1' })
  t.same(asked.map(({ to }) => to), ['b', 'c', 'd'], 'every live node at once')
  t.match(asked[0]?.request, { method: 'POST', path: '/v1/cancel/C%2F1', caller: { id: 'ann' } })
  t.ok(asked[0]!.request.timeoutMs! <= 2000)
})

t.test('the first that knows it ends the wait', async (t) => {
  const { cancel } = node({ b: async () => await new Promise(() => {}), c: cancels })
  t.match(await cancel(), { command_id: 'C/1' })
})

t.test('what a member passed on goes no further', async (t) => {
  const { asked, cancel } = node({ b: cancels })
  await t.rejects(cancel('install-of-c'), { reason: 'command_unknown', status: 404 } as never)
  t.same(asked, [])
})

t.test('a node that knows it and refuses counts more than those that do not know it', async (t) => {
  const { cancel } = node({ b: unknown, c: refusing(403, 'missing_grant'), d: breaks })
  await t.rejects(cancel(), { reason: 'missing_grant', status: 403,
    details: { authority: 'cluster:write' } } as never)
})

t.test('nobody knows it', async (t) => {
  const { cancel } = node({ b: unknown, c: unknown })
  const error = await cancel().catch((error: unknown) => error as { details: object, message: string })
  t.match(error, { reason: 'command_unknown', message: 'No command C/1 is running.' })
  t.notOk('unreachable' in (error as { details: object }).details)
})

const silent: Record<string, Answer> = {
  'cannot be reached': breaks,
  'says nothing in time': async () => { throw kernelError('timeout') },
  'is stopping': refusing(503, 'shutting_down'),
  'answers with no JSON': () => ({ status: 500, headers: {}, body: Readable.from([Buffer.from('<html>')]) }),
  'answers with JSON that is no error': () => json(404, { error: null }),
  'answers without an end': () => ({ status: 404, headers: {}, body: Readable.from((function * () {
    for (;;) yield Buffer.alloc(16_384)
  })()) })
}
for (const [name, answer] of Object.entries(silent)) {
  t.test(`a node that ${name} is named`, async (t) => {
    const { cancel } = node({ b: unknown, c: answer })
    await t.rejects(cancel(), { reason: 'command_unknown', message: /name-c did not answer/,
      details: { unreachable: [{ nodeId: 'n-c', name: 'name-c' }] } })
  })
}

t.test('a call that names this node is served here or refused', async (t) => {
  const { asker, runner } = await pair(t)
  const call = {
    commandId: 'C', caller, signal: new AbortController().signal, setHeader () {}
  } as unknown as CapabilityCall
  const run = async (pinned: boolean): ReturnType<typeof hear> => await hear(
    runTask(asker, { modelId: VOICE, capability: 'tts', task }, { ...call, pinned, retry: false }))
  t.match((await run(true)).error, {
    reason: 'no_instance', status: 404, message: /requested node does not serve it, only \S+/,
    details: { brokenLink: 'placement', remedy: /target_node, --node/ }
  })
  t.same(runner.opened, [])
  t.match(await run(false), { error: null, chunks: [{}, {}] })
  const both = await pair(t, { own: { load: 9 } })
  const alone = await hear(
    runTask(both.asker, { modelId: VOICE, capability: 'tts', task }, { ...call, pinned: true }))
  t.match(alone.error, { reason: 'no_instance' }, 'its own runner, which has no process, and no other one')
  t.same(both.runner.opened, [])
})
