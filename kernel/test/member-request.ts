import { setMaxListeners } from 'node:events'
import http from 'node:http'
import { pipeline } from 'node:stream'
import { kernelError } from '../api/errors.js'
import { CALLER_HEADER, writeCaller } from '../http/forwarded.js'
import type { MemberRequest, MemberResponse } from '../api/services.js'

/** Sends a request between members over the connection `by`, as a real link would. */
export async function memberRequest (
  by: http.RequestOptions, { method, path, headers: given, body, upload, caller, signal }: MemberRequest
): Promise<MemberResponse> {
  const text = body === undefined || typeof body === 'string' ? body ?? '' : JSON.stringify(body)
  const headers = {
    ...given, [CALLER_HEADER]: writeCaller(caller),
    ...upload === undefined ? {} : { 'content-type': upload.type },
    ...text === '' ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
  }
  if (signal !== undefined) setMaxListeners(0, signal)
  signal?.throwIfAborted()
  return await new Promise((resolve, reject) => {
    const sent = http.request({ ...by, method, path, headers: { ...by.headers, ...headers } as never })
    let answer: http.IncomingMessage | undefined
    signal?.addEventListener('abort', () => { (answer ?? sent).destroy(kernelError('cancelled')) })
    sent.on('error', reject)
    sent.on('response', (head) => {
      answer = head.on('error', () => {}).once('close', () => { if (!sent.writableEnded) sent.destroy() })
      resolve({ status: head.statusCode!, headers: head.headers as Record<string, string>, body: head })
    })
    if (upload === undefined) sent.end(text)
    else pipeline(upload.bytes, sent, () => {})
  })
}
