import { isIPv4 } from 'node:net'
import type { IncomingMessage } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { listOf } from '../net/addresses.js'
import { invalid } from './error-body.js'
import { offeredToken } from './sockets.js'

/**
 * A client's bearer token, also from the headers used by Anthropic's API and by web pages. Throws
 * `invalid_request` for two Authorization headers, and for an x-api-key that differs from Authorization.
 */
export function credentialOf ({ raw, headers }: Pick<FastifyRequest, 'raw' | 'headers'>): string | undefined {
  sentOnce(raw, 'Authorization')
  const { authorization, 'x-api-key': key } = headers
  // Clients without a key send just `Bearer`.
  const given = /^Bearer *$/i.test(authorization ?? '') ? undefined : authorization
  const keyed = typeof key === 'string' && key !== '' ? `Bearer ${key}` : undefined
  if (given !== undefined && keyed !== undefined && given.replace(/^Bearer +/i, 'Bearer ') !== keyed) {
    throw invalid([{ path: '', message: 'has an Authorization and another x-api-key; send one' }], 'request')
  }
  if ((given ?? keyed) !== undefined) return given ?? keyed
  return offeredToken(headers['sec-websocket-protocol'])
}

/** Returns a function that tests whether an address is in `api.trust_proxy`. */
export function proxyList (entries: readonly string[]): (address: string) => boolean {
  const list = listOf(...entries)
  return (address) => entries.length > 0 && list.check(address, isIPv4(address) ? 'ipv4' : 'ipv6')
}

/** Address of the socket, or of the client behind a proxy listed in `api.trust_proxy`. */
export function remoteOf (request: FastifyRequest): string {
  // A socket that was reset has no address.
  return request.raw.socket.remoteAddress === undefined ? '' : request.ip
}

/** Host from an absolute target, else from the Host header. Throws `invalid_request` for two Host headers. */
export function hostOf ({ raw, originalUrl, headers }: FastifyRequest): string | undefined {
  sentOnce(raw, 'Host')
  const absolute = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(originalUrl)
  return absolute === null ? headers.host : absolute[1]
}

/** Throws for a repeated header, since Node uses the first one while a proxy may have checked the other. */
function sentOnce ({ rawHeaders }: IncomingMessage, name: 'Host' | 'Authorization'): void {
  let count = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const sent = rawHeaders[i]!
    if (sent.length === name.length && sent.toLowerCase() === name.toLowerCase()) count++
  }
  if (count > 1) throw invalid([{ path: '', message: `has two ${name} headers; send one` }], 'request')
}

/** Path and query as sent by the client, before any rewriting for the router. */
export const targetOf = ({ originalUrl }: FastifyRequest): string =>
  originalUrl.startsWith('/') ? originalUrl : originalUrl.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '')

export const header = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value[0] : value
