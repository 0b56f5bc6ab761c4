// @ts-check
import t from 'tap'
import { startPlugin } from 'svc/testing'
import words from '../index.js'

/**
 * Calls the capability over HTTP, as a client does.
 * @param {import('svc/testing').Rig} rig
 * @param {object} payload
 */
async function count (rig, payload) {
  const { revisions } = (await rig.inject({ url: '/v1/capabilities' })).json()
  const revision = revisions['words@1.0.0']
  return await rig.inject({
    method: 'POST',
    url: '/v1/capabilities/call',
    payload: { capability_id: 'words', version: '1.0.0', descriptor_revision: revision, payload }
  })
}

t.test('counts words, tells the total and shows it in /state', async (t) => {
  const rig = await startPlugin(t, words)
  t.same((await count(rig, { text: 'one two  three' })).json().result, { words: 3 })
  t.same((await count(rig, { text: 'four' })).json().result, { words: 1 })
  t.same((await rig.inject({ url: '/v1/words' })).json(), { words: 4 })
  t.same(Object.values((await rig.inject({ url: '/state' })).json().wordCounts), [4])
  const told = rig.events.filter((e) => e.kind === 'WordsCounted').map((e) => e.payload)
  t.same(told, [{ words: 3 }, { words: 1 }])
})

t.test('refuses a text above the configured size with its own reason', async (t) => {
  const rig = await startPlugin(t, words, { config: { most: 2 } })
  const answer = await count(rig, { text: 'one two three' })
  t.equal(answer.statusCode, 400)
  t.equal(answer.json().error.reason, 'too_many_words')
  t.match(answer.json().error.details.remedy, /plugins\.words\.most/)
})

t.test('refuses a payload that is not as the schema says', async (t) => {
  const answer = await count(await startPlugin(t, words), { txt: 'one' })
  t.equal(answer.json().error.reason, 'invalid_payload')
})

t.test('refuses a configuration that is not as the schema says', async (t) => {
  await t.rejects(startPlugin(t, words, { config: { most: 'many' } }), { name: 'BootError' })
})

t.test('needs the authority that the route declares', async (t) => {
  const rig = await startPlugin(t, words, { allow: ['invoke'] })
  t.equal((await rig.inject({ url: '/v1/words' })).statusCode, 401)
})
