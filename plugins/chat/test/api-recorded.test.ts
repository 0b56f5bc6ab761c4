/** Requests of real clients get answers of the form that these clients understood. */
import { readdirSync } from 'node:fs'
import t from 'tap'
import { startForRecorded } from './recorded-kit.js'
import { answerForm, differences, recordingOf } from './recordings.js'

const clients = readdirSync(new URL('recorded/', import.meta.url)).map((file) => file.replace('.json', ''))

/** Paths that other plugins serve. */
const OTHERS = /^\/v1\/(audio|models)|^\/ollama\/api\/tags/

t.test('recorded requests', async (t) => {
  t.ok(clients.length >= 4)
  const { rig } = await startForRecorded(t)
  for (const client of clients) {
    const { version, requests } = recordingOf(client)
    t.ok(requests.length > 0, `${client} ${version}`)
    for (const { method, path: url, headers, body, answer } of requests) {
      if (OTHERS.test(url)) continue
      const payload = body === undefined ? {} : { payload: JSON.stringify(body) }
      const { statusCode, headers: got, body: text } =
        await rig.inject({ method: method as 'POST', url, headers, ...payload })
      const type = String(got['content-type'])
      const form = answer.form === undefined ? {} : { form: answerForm(type, text) }
      t.same(differences(answer, { status: statusCode, type, ...form }, ''), [], `${client} ${url}`)
    }
  }
})
