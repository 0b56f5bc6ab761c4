import t from 'tap'
import { joinModels } from '../cli/ls.js'
import { sizeOfCopies, locationsText } from '../cli/api.js'
import { copy, nodeOf, sendJson } from './verb-kit.js'

t.test('where copies are', async (t) => {
  t.equal(locationsText([]), '-')
  t.equal(locationsText([
    copy({ nodeId: 'n3', nodeName: 'node10' }), copy({ nodeId: 'n2', nodeName: 'node2' }),
    copy({ kind: 'store' }), copy({ nodeId: 'n4', nodeName: 'n4', live: false }), copy({ kind: 'receiving' })
  ]), 'store@node1, staged@n4 (lost),node2,node10, receiving@node1')
  t.equal(sizeOfCopies([]), undefined)
  const part = copy({ kind: 'receiving', sizeBytes: 9 })
  t.equal(sizeOfCopies([part, copy({ sizeBytes: 5 })]), 5, 'of a whole copy')
  t.equal(sizeOfCopies([part]), 9)
})

t.test('the state of a model', async (t) => {
  const entry = { id: 'acme/x' }
  const cases: [object, Parameters<typeof joinModels>[1], string][] = [
    [{ ready: true, installed: true }, [copy({ kind: 'receiving' })], 'ready'],
    [{ installed: true }, [copy(), copy({ kind: 'receiving' })], 'receiving'],
    [{ installed: true }, [], 'installed'],
    [{}, [copy()], 'installed'],
    [{}, [copy({ kind: 'bundled' })], 'installed'],
    [{}, [copy({ live: false })], '-'],
    [{}, [copy({ kind: 'store' })], '-'],
    [{}, [], '-']
  ]
  for (const [more, copies, state] of cases) {
    t.equal(joinModels([{ ...entry, ...more }], copies)[0]!.state, state, JSON.stringify([more, copies]))
  }
  t.same(joinModels([{ id: 'b/b' }], [copy({ modelId: 'a/a' })]).map((m) => [m.modelId, m.sizeBytes]),
    [['a/a', 2048], ['b/b', null]], 'by name, with or without an entry or a copy')
})

t.test('svc ls', async (t) => {
  const copies = [copy({ kind: 'store' }), copy(), copy({ nodeId: 'n2', nodeName: 'node2\u001b[2J' })]
  const data = [{ id: 'acme/x', tasks: ['tts'], ready: true, installed: true },
    { id: 'acme/y', storage_size_megabytes: 1.5 }]
  const node = await nodeOf(t, {
    'GET /models/copies': (response) => { sendJson(response, { copies }) },
    'GET /v1/models': (response) => { sendJson(response, { object: 'list', data }) }
  })
  const ran = await node.run(['ls'])
  t.equal(ran.status, 0)
  t.equal(ran.out,
    'NAME    SIZE     WHERE                               STATE\n' +
    'acme/x  2.0 KiB  store@node1, staged@node1,node2[2J  ready\n' +
    'acme/y  1.5 MiB  -                                   -\n')
  const { models } = JSON.parse((await node.run(['ls', '--json'])).out) as { models: object[] }
  t.match(models, [
    { modelId: 'acme/x', sizeBytes: 2048, state: 'ready', tasks: ['tts'], copies },
    { modelId: 'acme/y', sizeBytes: 1.5 * 1024 * 1024, state: '-', tasks: [], copies: [] }
  ])
})

t.test('svc ls while the store is away names it', async (t) => {
  const answers: { data: object[] } = { data: [{ id: 'acme/x' }, { id: 'acme/y', ready: true }] }
  const node = await nodeOf(t, {
    'GET /models/copies': (response) => { sendJson(response, { copies: [], silent_store: 'attic' }) },
    'GET /v1/models': (response) => { sendJson(response, { object: 'list', ...answers }) }
  })
  t.match(await node.run(['ls']), { out: /acme\/x .* store unreachable\nacme\/y .* ready\n/,
    err: /the store on attic cannot be reached/ })
  answers.data = []
  const { err } = await node.run(['ls'])
  t.match(err, /attic/)
  t.notMatch(err, /svc pull/)
})

t.test('svc ls without models names the next step', async (t) => {
  const node = await nodeOf(t, {
    'GET /models/copies': (response) => { sendJson(response, { copies: [] }) },
    'GET /v1/models': (response) => {
      sendJson(response, { object: 'list', data: [
        { id: 'svc/oracle', ready: true, virtual: true }, { id: 'brief', root: 'acme/x', ready: true }
      ] })
    }
  })
  t.match(await node.run(['ls']), { status: 0, out: /^$/, err: /svc pull org\/name/ },
    'svc\'s own virtual ones and other names have no files')
  t.same(JSON.parse((await node.run(['ls', '--json'])).out), { models: [] })
})
