import { isVerbError } from '../../kernel/cli/index.js'
import type { CallToolResult } from '@modelcontextprotocol/server'
import type { Frame } from '../capabilities/cli/invoke.js'
import type { StoredMedia } from './media.js'

/** Limit in bytes on media inside a result; larger media are replaced by a link. */
const INLINE_BYTES = 1024 * 1024
/** Limits on the media (in bytes) and the text (in characters) of one call. */
const MEDIA_BYTES = 32 * 1024 * 1024
const TEXT_MOST = 4 * 1024 * 1024

export interface Progress { readonly chunks: number, readonly seconds: number }

type Content = CallToolResult['content'][number]

export const textResult = (text: string, isError = false): CallToolResult =>
  ({ content: [{ type: 'text', text }], ...isError ? { isError } : {} })

/** A VerbError as a tool result, so that the model can correct its next call. Rethrows other errors. */
export function refused (error: unknown): CallToolResult {
  if (!isVerbError(error)) throw error
  return textResult(error.message, true)
}

/**
 * Reads a stream to its end, and joins its media and its text. `keep` stores media that are too large for a
 * result. Throws VerbError if the stream fails.
 */
export async function collected (
  frames: AsyncIterable<Frame>, keep: (mimeType: string, bytes: Uint8Array) => StoredMedia,
  onProgress: (progress: Progress) => void
): Promise<CallToolResult> {
  const payloads: string[] = []
  const media: Uint8Array[] = []
  const size = { text: 0, media: 0 }
  let about: Frame['header']['media'] = null
  let seconds = 0
  for await (const { header, media: bytes } of frames) {
    if (header.kind !== 'chunk') continue
    if (bytes === null) {
      const text = JSON.stringify(header.payload)
      size.text += text.length
      payloads.push(text)
    } else {
      about ??= header.media
      size.media += bytes.byteLength
      seconds += header.media?.duration_seconds ?? 0
      media.push(bytes)
    }
    if (size.text > TEXT_MOST || size.media > MEDIA_BYTES) {
      return textResult('The answer is too large for MCP: over ' +
        (size.media > MEDIA_BYTES ? `${MEDIA_BYTES} bytes of media` : `${TEXT_MOST} characters`) +
        '. Request less, or use POST /v1/capabilities/stream.', true)
    }
    onProgress({ chunks: payloads.length + media.length, seconds })
  }
  if (about === null) return textResult(textOf(payloads))
  const { media_type: mimeType, codec, sample_rate: rate, channels } = about
  const bytes = Buffer.concat(media)
  const facts = { media_type: mimeType, codec, sample_rate: rate, channels, bytes: bytes.byteLength,
    seconds: Math.round(seconds * 1000) / 1000 }
  return { content: [mediaContent(mimeType, bytes, keep), { type: 'text', text: JSON.stringify(facts) }] }
}

function mediaContent (
  mimeType: string, bytes: Buffer, keep: (mimeType: string, bytes: Uint8Array) => StoredMedia
): Content {
  const kind = /^(audio|image)\//.exec(mimeType)?.[1] as 'audio' | 'image' | undefined
  if (kind !== undefined && bytes.byteLength <= INLINE_BYTES) {
    return { type: kind, mimeType, data: bytes.toString('base64') }
  }
  const { uri } = keep(mimeType, bytes)
  return { type: 'resource_link', uri, name: `${kind ?? 'media'} of ${bytes.byteLength} bytes`, mimeType,
    size: bytes.byteLength }
}

interface Delta { content?: string | null, tool_calls?: unknown[] }

/** Joins the text of OpenAI chat chunks; writes other payloads as JSON, one line per chunk. */
function textOf (payloads: readonly string[]): string {
  const chunks = payloads.map((text) => JSON.parse(text) as
    { object?: unknown, choices?: { delta?: Delta }[] } | null)
  const deltas = chunks.flatMap((chunk) => chunk?.choices?.flatMap(({ delta }) => delta ?? []) ?? [])
  const chat = chunks.length > 0 && chunks.every((chunk) => chunk?.object === 'chat.completion.chunk') &&
    deltas.every(({ tool_calls: calls = [] }) => calls.length === 0)
  return chat ? deltas.map(({ content }) => content ?? '').join('') : payloads.join('\n')
}
