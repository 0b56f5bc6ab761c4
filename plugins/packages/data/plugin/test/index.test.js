import t from 'tap'
import { startPlugin } from 'svc/testing'
import plugin from '../index.js'

/** Calls the capability over HTTP, as a client does, and returns the payloads of its chunks. */
async function echo (rig, payload) {
  const listing = (await rig.inject({ url: '/v1/capabilities' })).json()
  const answer = await rig.inject({
    method: 'POST',
    url: '/v1/capabilities/stream',
    headers: { accept: 'text/event-stream' },
    payload: {
      capability_id: 'demo',
      version: '1.0.0',
      descriptor_revision: listing.revisions['demo@1.0.0'],
      payload
    }
  })
  const frames = answer.body.split('\n').filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)))
  const chunks = frames.filter((frame) => frame.kind === 'chunk').map((frame) => frame.payload)
  return { status: answer.statusCode, last: frames.at(-1)?.kind, chunks }
}

t.test('one chunk per word, then the end', async (t) => {
  const { status, last, chunks } = await echo(await startPlugin(t, plugin), { text: 'good morning' })
  t.equal(status, 200)
  t.same(chunks, [{ word: 'good', index: 0 }, { word: 'morning', index: 1 }])
  t.equal(last, 'completed')
})

t.test('its setting in svc.yaml is used', async (t) => {
  const { chunks } = await echo(await startPlugin(t, plugin, { config: { shout: true } }), { text: 'hey' })
  t.same(chunks, [{ word: 'HEY', index: 0 }])
})

t.test('a payload off the schema is refused', async (t) => {
  const { status } = await echo(await startPlugin(t, plugin), { text: '' })
  t.equal(status, 400)
})
