import t from 'tap'
import { sessionOf } from '../api/answer.js'

const all = {
  headers: { 'x-session-id': 'a', 'x-openwebui-chat-id': 'd' },
  body: { prompt_cache_key: 'b', conversation: 'c', user: 'e' }
}
const rows: [string, { headers?: Record<string, string>, body?: unknown }, string | undefined][] = [
  ['the header first', {}, 'a'],
  ['OpenAI\'s key', { headers: {} }, 'b'],
  ['a conversation', { headers: {}, body: { conversation: 'c', user: 'e' } }, 'c'],
  ['Open WebUI\'s before the user', { headers: { 'x-openwebui-chat-id': 'd' }, body: { user: 'e' } }, 'd'],
  ['the user last', { headers: {}, body: { user: 'e' } }, 'e'],
  ['no text', { headers: { 'x-session-id': '' }, body: { prompt_cache_key: 7, conversation: {} } },
    undefined],
  ['no body', { headers: {}, body: undefined }, undefined]
]
for (const [name, request, expected] of rows) {
  t.test(name, async (t) => { t.equal(sessionOf({ ...all, ...request }), expected) })
}
