import { once } from 'node:events'
import t from 'tap'
import { CallerService } from '../api/callers.js'
import { AuditService, type Change, type ChangeEnd } from '../api/audit.js'
import { kernelError } from '../api/errors.js'
import { definePlugin, type RouteDecl } from '../api/plugin.js'
import { ListenerService } from '../api/services.js'
import { isAudited } from '../http/audited.js'
import { fake, startPlugin } from '../testing/index.js'
import { duplexPair } from './duplex-pair.js'

const kept: [boolean, RouteDecl['method'], authority: string | null, Partial<RouteDecl>?][] = [
  [true, 'POST', 'cluster:write'], [true, 'PUT', 'operator'], [true, 'DELETE', 'plugin:manage'],
  [true, 'POST', 'approve'], [true, 'POST', 'somebody-elses'], [false, 'GET', 'operator'],
  [false, 'POST', 'invoke'], [false, 'POST', 'read'], [false, 'POST', null],
  [false, 'POST', 'operator', { audit: false }], [true, 'POST', 'invoke', { audit: true }]
]
for (const [expected, method, authority, more] of kept) {
  const decl = { method, authority, url: '/', summary: '', ...more }
  t.equal(isAudited(decl), expected, `${method} ${authority}`)
}

const changing = definePlugin({
  name: 'changing',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Changes something.',
  routes: {
    set: {
      method: 'POST', url: '/v1/thing/:id', summary: 'Sets it.', authority: 'cluster:write',
      params: { type: 'object', properties: { id: { type: 'string' } } },
      body: {
        type: 'object', additionalProperties: false, required: ['value'],
        properties: { value: { type: 'string' }, password: { type: 'string', writeOnly: true } }
      }
    },
    look: { method: 'GET', url: '/v1/thing', summary: 'Shows it.', authority: 'operator' }
  }
}, () => ({
  routes: {
    set: (request) => {
      steps.push('made')
      if (request.body.value === 'wrong') throw kernelError('config_changed')
      request.note({ before: 'old' })
      return { ok: true }
    },
    look: () => ({})
  }
}))

let steps: string[] = []

function keeper (fault?: Error) {
  const begun: Change[] = []
  const ends: ChangeEnd[] = []
  const refused: { change: Change, end: ChangeEnd }[] = []
  steps = []
  return {
    begun, ends, refused,
    fake: fake(AuditService, {
      async begin (change) {
        if (fault !== undefined) throw fault
        begun.push(change)
        steps.push('begun')
        return async (end) => { ends.push(end); steps.push('ended') }
      },
      refused: (change, end) => { refused.push({ change, end }) }
    })
  }
}

const set = (value: string, headers: Record<string, string> = {}) => ({
  method: 'POST', url: '/v1/thing/7', payload: { value, password: 'hunter2' }, headers
})

t.test('a change is kept before it is made, and its end before the answer', async (t) => {
  const kept = keeper()
  const rig = await startPlugin(t, changing, { fakes: [kept.fake] })
  t.equal((await rig.inject(set('new'))).statusCode, 200)
  t.same(steps, ['begun', 'made', 'ended'])
  t.match(kept.begun, [{
    who: 'local', how: 'direct', what: 'POST /v1/thing/:id',
    detail: { request: /^[0-9a-f-]{36}$/ },
    parts: [['params', { type: 'object' }, { id: '7' }], ['query', undefined, {}],
      ['body', { required: ['value'] }, { value: 'new', password: 'hunter2' }]]
  }])
  t.same(kept.ends, [{ status: 200, reason: null, detail: { before: 'old' } }])
  t.equal((await rig.inject(set('wrong'))).statusCode, 409)
  t.same(kept.ends[1], { status: 409, reason: 'config_changed', detail: {} })
  await rig.inject({ url: '/v1/thing' })
  t.equal((await rig.inject({ ...set('x'), payload: { nothing: 1 } })).statusCode, 400)
  t.equal(kept.begun.length, 2, 'neither reads nor what was not even asked for rightly')
})

t.test('what cannot be recorded is not done', async (t) => {
  const kept = keeper(kernelError('audit_unavailable'))
  const rig = await startPlugin(t, changing, { fakes: [kept.fake] })
  const answer = await rig.inject(set('new'))
  t.equal(answer.statusCode, 507)
  t.match(answer.json().error, { reason: 'audit_unavailable', retryable: true })
  t.same(steps, [])
  t.equal((await rig.inject({ url: '/v1/thing' })).statusCode, 200, 'reads go on')
})

t.test('who is refused is told, without what was sent', async (t) => {
  const kept = keeper()
  const rig = await startPlugin(t, changing, { fakes: [kept.fake], allow: ['read'] })
  t.equal((await rig.inject(set('new'))).statusCode, 401)
  t.equal((await rig.inject(set('new', { authorization: 'Bearer svc_app_none' }))).statusCode, 401)
  t.equal((await rig.inject(set('new', { origin: 'https://elsewhere.example' }))).statusCode, 403)
  t.equal((await rig.inject({ url: '/v1/thing' })).statusCode, 401)
  const end = (status: number, reason: string): ChangeEnd => ({ status, reason, detail: {} })
  const what = 'POST /v1/thing/:id'
  const params = { type: 'object', properties: { id: { type: 'string' } } }
  const detail = { from: '127.0.0.1' }
  const parts: Change['parts'] = [['params', params, { id: '7' }]]
  t.same(kept.refused, [
    { change: { who: 'local', how: 'direct', what, detail, parts }, end: end(401, 'unauthenticated') },
    { change: { who: 'anonymous', how: 'direct', what, detail, parts }, end: end(401, 'unauthenticated') },
    { change: { who: 'anonymous', how: 'direct', what, detail, parts }, end: end(403, 'foreign_origin') }
  ])
  t.same([steps, kept.begun], [[], []])
})

t.test('what a way of showing who asks refuses is told by its reason, also through a relay', async (t) => {
  const kept = keeper()
  const rig = await startPlugin(t, changing, { fakes: [kept.fake] })
  rig.service(CallerService).register({
    word: 'TEST1', bearer: 'svc_test_', check: () => { throw kernelError('join_refused') },
    stands: () => undefined, makerOf: () => undefined
  })
  await rig.inject(set('new', { authorization: 'TEST1 x' }))
  const [near, far] = duplexPair()
  rig.service(ListenerService).accept(far, { device: 'dev-a' })
  near.write('POST /v1/thing/7 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n')
  t.match(String((await once(near, 'data'))[0]), /^HTTP\/1\.1 401 /)
  near.destroy()
  far.destroy()
  t.match(kept.refused, [
    { change: { who: 'anonymous', how: 'direct', detail: { from: '127.0.0.1' } },
      end: { status: 403, reason: 'join_refused' } },
    { change: { who: 'anonymous', how: 'relay', detail: { from: 'dev-a' } },
      end: { status: 401, reason: 'unauthenticated' } }
  ])
})
