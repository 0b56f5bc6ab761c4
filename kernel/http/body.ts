import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { kernelError, withHeaders, type SvcError } from '../api/errors.js'
import { countParts, turnFor } from './json-complexity.js'
import { invalid, printable } from './error-body.js'
import type { RouteDecl } from '../api/route.js'

/** Initial size of a body's buffer in bytes. */
const FIRST_BYTES = 16 * 1024
/** Maximum nesting depth; deeper values could overflow the stack of code that walks or serialises them. */
const MOST_LEVELS = 500

/** Matches half of a surrogate pair, since the `u` flag treats a whole pair as one character. */
const HALF = /\p{Surrogate}/u

/** Accepts only complete JSON bodies in UTF-8, and refuses those that two parsers could read differently. */
export function readJsonOnly (app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  const read = async (request: FastifyRequest, payload: Readable): Promise<unknown> => {
    checkEncoding(request, 'plain JSON')
    const charset = /;\s*charset\s*=\s*"?([^";\s]+)/i.exec(request.headers['content-type'] ?? '')?.[1]
    if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
      throw kernelError('unsupported_media_type', `Bodies must be UTF-8, not ${printable(charset)}.`)
    }
    const limit = request.routeOptions.bodyLimit ?? app.initialConfig.bodyLimit!
    if (Number(request.headers['content-length']) > limit) throw tooLarge(limit)
    const body = await collectBody(payload, limit)
    await turnFor(body)
    return readJson(request, body)
  }
  app.addContentTypeParser('application/json', read)
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: Readable) => {
    const { anyContentType, uploads = {} } =
      request.routeOptions.config as Pick<RouteDecl, 'anyContentType' | 'uploads'>
    if (anyContentType === true) return await read(request, payload)
    if (Object.hasOwn(uploads, request.mediaType ?? '')) return openUpload(request, payload)
    if (!request.is404) throw kernelError('unsupported_media_type')
    return undefined
  })
}

/** Passes the body on unread, without Node's time limit for whole requests. */
function openUpload (request: FastifyRequest, payload: Readable): Readable {
  checkEncoding(request, 'the plain body')
  if (expected.has(request)) {
    throw kernelError('unsupported_media_type', 'A signed request cannot stream its body; send JSON.')
  }
  // Undocumented field: the parser returns to the list of timed connections after the request.
  const { parser } = request.raw.socket as { parser?: { remove?: () => void } | null }
  parser?.remove?.()
  return payload
}

function checkEncoding ({ headers }: FastifyRequest, instead: string): void {
  const { 'content-encoding': encoding = 'identity' } = headers
  if (encoding.toLowerCase() === 'identity') return
  const packed = `The content-encoding ${printable(encoding)} is not supported; send ${instead}.`
  throw withHeaders(kernelError('unsupported_media_type', packed), { 'accept-encoding': 'identity' })
}

/** Parses a body; undefined if it is empty and the route needs none. Throws the reason for refusing it. */
function readJson (request: FastifyRequest, body: Buffer): unknown {
  const { keys, excess } = countParts(body)
  if (!isExpected(request, body)) throw otherBody()
  if (body.byteLength === 0) {
    if (wantsBody(request)) throw emptyBody()
    return undefined
  }
  if (excess !== null) throw invalid([{ path: '', message: excess }], 'body')
  if (!isUtf8(body)) throw invalid([{ path: '', message: 'is not valid UTF-8' }], 'body')
  const text = body.toString()
  // Some programs write a byte order mark, which RFC 8259 allows a reader to ignore.
  const json = text.startsWith('\ufeff') ? text.slice(1) : text
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch {
    throw invalid([{ path: '', message: 'is not valid JSON' }], 'body')
  }
  const fault = faultOf(json, keys, value)
  if (fault !== null) throw invalid([fault], 'body')
  return value
}

/** Expected SHA-256 of signed bodies, kept until the body has arrived. */
const expected = new WeakMap<FastifyRequest, Uint8Array>()

const sha256 = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest()
const NOTHING_SHA256 = sha256(Buffer.alloc(0))

const otherBody = (): SvcError =>
  kernelError('unauthenticated', 'The body does not match the signature; the request was not run.')

function bringsBody ({ method, headers }: FastifyRequest): boolean {
  if (method === 'GET' || method === 'HEAD') return false
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/**
 * Sets a request's expected body hash, which is checked before the body is used. Throws `unauthenticated`
 * if a signed body is missing.
 */
export function expectBody (request: FastifyRequest, bodySha256: Uint8Array): void {
  if (bringsBody(request)) expected.set(request, bodySha256)
  else if (!NOTHING_SHA256.equals(bodySha256)) throw otherBody()
}

function isExpected (request: FastifyRequest, body: Uint8Array): boolean {
  const wanted = expected.get(request)
  return wanted === undefined || sha256(body).equals(wanted)
}

const wantsBody = ({ routeOptions }: FastifyRequest): boolean => routeOptions.schema?.body !== undefined

const emptyBody = (): SvcError => kernelError('invalid_request', 'The body is empty; send a JSON object.',
  { issues: [{ path: '', message: 'the body is empty' }] })

const tooLarge = (limit: number): SvcError =>
  kernelError('payload_too_large', `The body is larger than ${limit} bytes.`, { limit_bytes: limit })

/**
 * Reads a body into one growing buffer, since storing tiny chunks separately would cost a hundred times their
 * size. Throws `payload_too_large` after `limit` bytes (the rest is discarded), or `invalid_request` if the
 * client breaks off.
 */
async function collectBody (source: Readable, limit: number): Promise<Buffer> {
  // A finished request may still emit an error, which would otherwise be unhandled.
  source.on('error', () => {})
  let body = Buffer.allocUnsafe(Math.min(FIRST_BYTES, limit))
  let length = 0
  try {
    for await (const piece of source.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      const needed = length + piece.byteLength
      if (needed > limit) break
      if (needed > body.byteLength) {
        const larger = Buffer.allocUnsafe(Math.min(limit, Math.max(needed, 2 * body.byteLength)))
        body.copy(larger, 0, 0, length)
        body = larger
      }
      piece.copy(body, length)
      length = needed
    }
  } catch {
    throw kernelError('invalid_request', 'The body ended early.',
      { issues: [{ path: '', message: 'the body ended early' }] })
  }
  if (source.readableEnded) return body.subarray(0, length)
  source.resume()
  throw tooLarge(limit)
}

/** Why a valid JSON text is refused, and where. */
interface Fault { path: string, message: string }

/**
 * The fault in a valid JSON text with `written` keys, or null: a repeated key, a key that could change a
 * prototype when the object is copied, half a surrogate pair, or too many levels.
 */
function faultOf (text: string, written: number, value: unknown): Fault | null {
  const halves = /\\u[dD][89a-fA-F]/.test(text)
  let keys = 0
  const open: [path: string, value: unknown, level: number][] = [['', value, 0]]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [path, inner, level] = next
    if (level > MOST_LEVELS) return { path: '', message: `is nested deeper than ${MOST_LEVELS} levels` }
    if (typeof inner === 'string') {
      if (halves && HALF.test(inner)) return { path, message: 'has a lone surrogate' }
    } else if (typeof inner === 'object' && inner !== null) {
      const forbidden = prototypeKey(inner)
      if (forbidden !== null) {
        return { path: below(path, forbidden), message: 'is a forbidden key' }
      }
      const visit = (child: unknown, key: string | number): void => {
        const look = typeof child === 'string' ? halves && HALF.test(child) : typeof child === 'object'
        if (look && child !== null) {
          open.push([below(path, String(key)), child, level + 1])
        }
      }
      if (Array.isArray(inner)) inner.forEach(visit)
      else {
        for (const [key, child] of Object.entries(inner)) {
          keys++
          visit(child, key)
        }
      }
      const bad = halves && Object.keys(inner).some((key) => HALF.test(key))
      if (bad) return { path, message: 'has a key with a lone surrogate' }
    }
  }
  return keys === written ? null : { path: repeatedKey(text), message: 'is repeated in one object' }
}

const below = (path: string, key: string): string => path === '' ? key : `${path}.${key}`

/** Finds a key with which a naive copy of the object would change the prototype. */
function prototypeKey (object: object): string | null {
  if (Object.hasOwn(object, '__proto__')) return '__proto__'
  const { constructor: own } = object as { constructor: unknown }
  const reaches = typeof own === 'object' && own !== null && Object.hasOwn(own, 'prototype')
  return reaches ? 'constructor.prototype' : null
}

function repeatedKey (text: string): string {
  const objects: Set<string>[] = []
  let last = ''
  // The closing quote is optional, so that the pattern never fails and matching takes linear time.
  for (const [token] of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"?|[{}:]/g)) {
    if (token === '{') objects.push(new Set())
    else if (token === '}') objects.pop()
    else if (token !== ':') last = token
    else {
      const key = JSON.parse(last) as string
      if (objects.at(-1)!.has(key)) return key
      objects.at(-1)!.add(key)
    }
  }
  return ''
}
