import { readFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { resolve } from 'node:path'
import { parseFields } from '../../../kernel/cli/index.js'
import { isObject } from '../../../kernel/index.js'
import { invocationBody, listingPath, parseId, pick, stream } from './invoke.js'
import type { Sink, Verb, VerbContext, VerbError } from '../../../kernel/cli/index.js'
import type { Frame, Listing } from './invoke.js'

interface Totals { chunks: number, bytes: number, unseen: number }

export default {
  async run (ctx, [name, ...words], options) {
    const node = options['node'] as string | undefined
    const output = options['output'] as string | undefined
    if (ctx.out.json && output === '-') throw ctx.fail(2, 'with --json, stdout is JSON; give -o FILE')
    const given = await givenPayload(ctx, options['payload'] as string | undefined)
    const timeout = timeoutOf(ctx, options['timeout'])
    const totals: Totals = { chunks: 0, bytes: 0, unseen: 0 }
    const again = (error: VerbError): boolean => totals.chunks === 0 && ctx.notYet(error)
    await ctx.retry({ seconds: ctx.wait ?? 0, again }, async () => {
      const found = await pick(ctx, await ctx.client.json<Listing>(listingPath(node)), parseId(name!))
      const payload = merge(ctx, given, parseFields(words, found.input_schema))
      const body = invocationBody(found, { payload, ...timeout, ...(node === undefined ? {} : { node }) })
      if (found.io_mode === 'unary') await callOnce(ctx, body)
      else if (found.io_mode === 'server_streaming') await callStream(ctx, body, output, totals)
      else throw ctx.fail(2, `${found.id} is ${found.io_mode}: use the WebSocket /v1/capabilities/session`)
    })
  }
} satisfies Verb

async function givenPayload (ctx: VerbContext, given: string | undefined): Promise<unknown> {
  if (given === undefined) return undefined
  const raw = given === '-'
    ? await text(ctx.io.stdin)
    : given.startsWith('@') ? readPayload(ctx, given.slice(1)) : given
  try {
    return JSON.parse(raw)
  } catch (error) {
    throw ctx.fail(2, `--payload is not JSON: ${(error as Error).message}`)
  }
}

function merge (ctx: VerbContext, payload: unknown, fields: Record<string, unknown>): unknown {
  if (payload === undefined) return fields
  if (Object.keys(fields).length === 0) return payload
  if (!isObject(payload)) throw ctx.fail(2, '--payload must be an object when fields are given as well')
  return { ...payload, ...fields }
}

function readPayload (ctx: VerbContext, path: string): string {
  try {
    return readFileSync(resolve(ctx.io.cwd, path), 'utf8')
  } catch (error) {
    throw ctx.fail(2, `--payload: cannot read ${path}: ${(error as Error).message}`)
  }
}

function timeoutOf (ctx: VerbContext, given: unknown): { timeoutSeconds?: number } {
  if (given === undefined) return {}
  const seconds = Number(given)
  if (!(seconds > 0 && seconds <= 300)) {
    throw ctx.fail(2, `--timeout ${String(given)}: expected seconds, above 0 and at most 300`)
  }
  return { timeoutSeconds: seconds }
}

async function callOnce ({ client, out }: VerbContext, body: object): Promise<void> {
  const answer = await client.json<{ result: unknown }>('/v1/capabilities/call', { body })
  out.value(out.json ? answer : answer.result)
}

/** Writes chunks to stdout as they arrive; media go to the `-o` file, or to stdout if not a terminal. */
async function callStream (
  ctx: VerbContext, body: object, output: string | undefined, totals: Totals
): Promise<void> {
  let sink: Sink | undefined
  const media = async (bytes: Uint8Array): Promise<void> => {
    if (output === undefined && (ctx.out.terminal || ctx.out.json)) {
      totals.unseen += bytes.byteLength
      return
    }
    sink ??= ctx.sink(output ?? '-')
    await sink.write(bytes)
  }
  try {
    for await (const frame of stream(ctx.client, ctx.signal, body)) await show(ctx, frame, media, totals)
    await sink?.keep()
  } catch (error) {
    await sink?.drop()
    throw error
  }
  ctx.err.end()
  if (totals.unseen > 0) ctx.err.line(`${totals.unseen} bytes of media were not written; -o FILE saves them`)
  if (sink !== undefined && output !== undefined && output !== '-') {
    ctx.err.line(`${output}: ${totals.bytes} bytes`)
  }
}

async function show (
  { out, err }: VerbContext, { header, media }: Frame, keep: (bytes: Uint8Array) => Promise<void>,
  totals: Totals
): Promise<void> {
  if (out.json) out.value(header)
  if (header.kind !== 'chunk') return
  totals.chunks++
  if (media === null) {
    if (!out.json) out.line(JSON.stringify(header.payload))
    return
  }
  totals.bytes += media.byteLength
  const end = (header.media?.timestamp_seconds ?? 0) + (header.media?.duration_seconds ?? 0)
  err.update(`chunk ${totals.chunks}, ${totals.bytes} bytes${end > 0 ? `, ${end.toFixed(1)} s` : ''}`)
  await keep(media)
}
