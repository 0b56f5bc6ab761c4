/** Compares what a client sends with its recording, which short tests replay, or records it. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { MODEL } from '../../plugins/chat/test/api-kit.js'
import {
  answerForm, differences, fileOf, formOf, recordingOf, type Recorded, type Recording
} from '../../plugins/chat/test/recordings.js'
import type { Exchange } from './recorder.js'
import type { Test } from 'tap'

const records = process.env['SVC_TEST_RECORD'] === '1'

/** Request headers that svc reads. */
const HEADERS =
  ['accept', 'content-type', 'authorization', 'x-api-key', 'anthropic-version', 'anthropic-beta']
/** Characters of a recorded text; long prompts are cut. */
const TEXT = 300

/** JSON without random ids and long texts. */
const steady = (text: string): unknown =>
  JSON.parse(text.replace(IDS, '$1_1').replace(UUID, '0'), (_key, value: unknown) =>
    typeof value === 'string' && value.length > TEXT ? value.slice(0, TEXT) : value)

const IDS = /\b(call|toolu|msg|resp|rs|fc)_[0-9A-Za-z-]{8,}/g
const UUID = /\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g

function requestOf ({ method, path, asked, sent, status = 0, headers, got }: Exchange): Recorded {
  const named = HEADERS.flatMap((name) => typeof asked[name] === 'string' ? [[name, asked[name]]] : [])
  const type = headers?.['content-type'] ?? ''
  return {
    method, path, headers: Object.fromEntries(named) as Record<string, string>,
    ...sent === '' ? {} : { body: steady(sent) },
    answer: { status, type, form: answerForm(type, got) }
  }
}

/** The text of a recording's file, with a line for each request. */
const textOf = ({ program, version, requests }: Recording): string =>
  `{ "program": ${JSON.stringify(program)}, "version": ${JSON.stringify(version)}, "requests": [\n` +
  `${requests.map((one) => JSON.stringify(one)).join(',\n')}\n] }\n`

/** A request reduced to its form. */
const reduced = ({ body, ...one }: Recorded): Recorded => ({ ...one, body: formOf(body ?? null) })

/**
 * The recording of a client that asks in no fixed order, and other models than the short tests have: each
 * form of a request once, without the form of the answer, which depends on the model.
 */
function anyOrder (requests: Recorded[], models: readonly string[]): Recorded[] {
  const forms = new Map<string, Recorded>()
  for (const request of requests) {
    const { answer: { form: _form, ...answer }, ...one } = request
    if (answer.status >= 400) continue
    const body = request.body as { model?: string } | undefined
    const isKnown = models.includes(body?.model ?? '')
    const own = { ...one, ...isKnown ? { body: { ...body, model: MODEL } } : {}, answer }
    const form = JSON.stringify(reduced(own))
    if (!forms.has(form)) forms.set(form, own)
  }
  return [...forms].sort(([a], [b]) => a < b ? -1 : 1).map(([, own]) => own)
}

/**
 * Fails for each field in which a client's requests and svc's answers differ from the recording. `models`:
 * those of a client that asks in no fixed order.
 */
export function sameAsRecorded (
  t: Test, client: string, version: string, exchanges: Exchange[], { models }: { models?: string[] } = {}
): void {
  const whole = exchanges.filter(({ ended }) => ended === 'answered').map(requestOf)
  const now: Recording = {
    program: client, version, requests: models === undefined ? whole : anyOrder(whole, models)
  }
  const file = fileURLToPath(fileOf(client))
  if (records) {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, textOf(now))
    t.comment(file)
  }
  const before = recordingOf(client)
  t.equal(version, before.version, `${client}: npm run test:real -- record`)
  t.same(drift(before.requests.map(reduced), now.requests.map(reduced)), [],
    `${client}: npm run test:real -- record`)
}

/** The differences of two lists of requests, in any order: LiteLLM asks for the model at various times. */
function drift (before: Recorded[], now: Recorded[]): string[] {
  const without = (all: Recorded[], others: Recorded[]): Recorded[] => {
    const texts = new Set(others.map((one) => JSON.stringify(one)))
    return all.filter((one) => !texts.has(JSON.stringify(one)))
  }
  const gone = without(before, now)
  const come = without(now, before).map((one) => {
    const nearest = gone.filter(({ path }) => path === one.path)
      .map((other) => differences(other, one, one.path)).sort((a, b) => a.length - b.length)
    return nearest[0]?.join(', ') ?? `${one.method} ${one.path}: not recorded`
  })
  return [...gone.map(({ method, path }) => `${method} ${path}: not sent`), ...come]
}
