import t from 'tap'
import { quiet, startCluster, type Member } from './cluster-kit.js'
import { ask, open, refusal } from './http.js'
import { figure, secondsSince, sleep, until } from './kit.js'

interface Made { token: string, record: { id: string } }

const statusAt = async ({ node }: Member, token: string): Promise<number> =>
  (await ask(node, '/node_id', { token })).status

async function make ({ node }: Member, body: object = {}): Promise<Made> {
  const whole = { label: 'x', authorities: ['read', 'invoke'], ...body }
  const answer = await ask(node, '/v1/tokens', { body: whole })
  if (answer.status !== 200) throw new Error(answer.text)
  return answer.json as Made
}

/** Opens a stream with a key; `over` tells whether it has ended. */
async function follow ({ node }: Member, token: string): Promise<() => boolean> {
  const response = await open(node, '/state?follow=1', { token })
  let over = response.statusCode !== 200
  response.on('error', () => {}).on('close', () => { over = true }).resume()
  return () => over
}

t.test('a key is accepted at every node, and revoked everywhere within 2 s', async (t) => {
  const cluster = await startCluster(t, { nodes: 3, config: quiet })
  await cluster.agreed()
  const [one, two, three] = cluster.members as [Member, Member, Member]
  const key = await make(one)
  for (const member of [two, three]) {
    await until(`${member.name} knows it`, async () => await statusAt(member, key.token) === 200)
  }
  const local = await make(one, { local: true })
  t.same(await Promise.all(cluster.members.map(async (member) => await statusAt(member, local.token))),
    [200, 401, 401], 'a token of one node stays one')
  const streams = await Promise.all([one, two].map(async (member) => await follow(member, key.token)))
  t.same(streams.map((over) => over()), [false, false])
  const start = performance.now()
  t.equal((await ask(three.node, `/v1/tokens/${key.record.id}`, { method: 'DELETE' })).status, 200)
  await until('all refuse it', async () =>
    (await Promise.all(cluster.members.map(async (member) => await statusAt(member, key.token))))
      .every((status) => status === 401))
  const refusedSeconds = secondsSince(start)
  await until('its streams end', () => streams.every((over) => over()))
  t.ok(refusedSeconds <= 2, `${refusedSeconds} s`)
  figure(t, 'keys', refusedSeconds <= 2, { refusedSeconds, endedSeconds: secondsSince(start) })

  const next = await make(two)
  // With a quorum of 1 a decision is on disk within 5 s.
  await sleep(6000)
  const { master } = await cluster.agreed()
  await master.kill()
  const left = cluster.up()
  t.same(await Promise.all(left.map(async (member) => await statusAt(member, next.token))), [200, 200],
    'without a master too')
  await cluster.agreed({ on: left, live: 2 })
  t.same(await Promise.all(left.map(async (member) => await statusAt(member, next.token))), [200, 200])
  for (const member of left) await member.kill()
  for (const member of cluster.members) await member.start()
  await cluster.agreed()
  for (const member of cluster.members) {
    await until(`${member.name} has it after the restart`,
      async () => await statusAt(member, next.token) === 200)
    t.equal(await statusAt(member, key.token), 401)
  }
})

t.test('a key for some models uses and lists no others, also with x-api-key', async (t) => {
  const cluster = await startCluster(t, { nodes: 1, config: quiet })
  const { node } = cluster.members[0]!
  const { token } = await make(cluster.members[0]!, { models: ['svc/steward'] })
  const chat = async (model: string, more: object) => await ask(node, '/v1/chat/completions', {
    token: null, body: { model, messages: [{ role: 'user', content: 'How do I stop a model?' }] }, ...more
  })
  const headers = { 'x-api-key': token }
  t.equal((await chat('svc/steward', { token })).status, 200)
  t.equal((await chat('svc/steward', { headers })).status, 200)
  t.match(refusal(await chat('svc/steward', { token, headers: { 'x-api-key': 'sk-other' } })),
    { type: 'invalid_request_error' })
  t.equal((await chat('svc/steward', { token, headers })).status, 200, 'the same one twice')
  const other = (await ask(node, '/v1/models')).json as { data: { id: string, tasks: string[] }[] }
  const voice = other.data.find(({ tasks }) => tasks.includes('tts'))!.id
  const messages = [{ role: 'user', content: 'x' }]
  for (const [path, body, model = 'svc/guide'] of [
    ['/v1/chat/completions', { messages }], ['/v1/completions', { prompt: 'x' }],
    ['/v1/messages', { max_tokens: 1, messages }], ['/v1/responses', { input: 'x' }],
    ['/v1/embeddings', { input: 'x' }], ['/api/chat', { messages }],
    ['/v1/audio/speech', { input: 'x', voice: 'default' }, voice]
  ] as const) {
    const answer = await ask(node, path, { token, body: { model, ...body } })
    t.equal(answer.status, 403, `${path}: ${answer.text}`)
    t.match(answer.text, /only svc\/steward/, path)
  }
  const ids = (answer: { json: unknown }): string[] =>
    (answer.json as { data: { id: string }[] }).data.map(({ id }) => id)
  t.same(ids(await ask(node, '/v1/models', { token })), ['svc/steward'])
  const anthropic = { 'anthropic-version': '2023-06-01' }
  t.same(ids(await ask(node, '/v1/models', { token, headers: anthropic })), ['svc/steward'])
  t.equal((await ask(node, `/v1/models/${encodeURIComponent(voice)}`, { token })).status, 404)
  t.same((await ask(node, '/api/v0/models', { token })).status, 200)
})
