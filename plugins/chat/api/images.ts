/** Images in messages, as data URLs. Pure. */
import { badField } from '../../../kernel/index.js'
import { fieldsOf, type Fields } from '../../runners/language/json.js'

export interface VisionSupport { modelId: string, readsImages: boolean }

/** The media type in the URL is ignored; the format comes from the bytes. */
const DATA = /^data:[^,]{0,200};base64,/i
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/
/** A decoded image takes three bytes per pixel, so a small file can expand to more than the memory holds. */
const MOST_PIXELS = 2 ** 25

/** Format and size from an image's header. */
export interface Picture { type: 'png' | 'jpeg' | 'gif' | 'bmp', width: number, height: number }

export const isImage = (part: Fields): boolean => part['type'] === 'image_url'

/**
 * An image in the engine's format; `field` is the API's name for its source. Throws `invalid_request` for a
 * model without vision, network URLs, unsupported formats and too many pixels.
 */
export function imagePart (part: Fields, path: string, vision: VisionSupport, field = 'image_url'): Fields {
  const { url, detail } = fieldsOf(part['image_url'])
  const at = `${path}.${field}`
  requireVision(vision, path)
  if (typeof url !== 'string') throw badField(`${at}.url`, 'must be a string')
  const head = DATA.exec(url)?.[0]
  if (head === undefined && !/^data:/i.test(url)) {
    throw badField(at,
      'is a network URL, which svc does not fetch: it could reach services that only this ' +
      'node may use. Send the image itself, as a base64 data: URL')
  }
  return partOf(head === undefined ? '' : url.slice(head.length), at, detail)
}

/** An image given as plain base64. Throws like `imagePart`, naming `path`. */
export function plainImage (data: string, path: string, vision: VisionSupport): Fields {
  requireVision(vision, path)
  return partOf(data.replace(DATA, ''), path)
}

/** The parts unchanged if one is an image, otherwise their joined text. */
export const textUnlessImages = (parts: Fields[]): string | Fields[] =>
  parts.some(isImage) ? parts : parts.map(({ text }) => text).join('\n')

function requireVision ({ modelId, readsImages }: VisionSupport, path: string): void {
  if (readsImages) return
  throw badField(path,
    `is an image, and ${modelId.slice(0, 200)} reads text only: it has no vision weights`)
}

function partOf (given: string, path: string, detail?: unknown): Fields {
  const data = given.replace(/\s+/g, '')
  const picture = BASE64.test(data) ? pictureOf(Buffer.from(data, 'base64')) : null
  if (picture === null) throw badField(path, 'must be a png, jpeg, gif or bmp image in base64')
  const { type, width, height } = picture
  if (width * height > MOST_PIXELS) {
    throw badField(path,
      `has ${width} x ${height} pixels; at most ${MOST_PIXELS} are allowed: scale it down`)
  }
  const url = `data:image/${type};base64,${data}`
  return { type: 'image_url', image_url: { url, ...detail == null ? {} : { detail } } }
}

/** The formats that llama.cpp decodes: first bytes in latin1, and a function that reads the image size. */
const FORMATS: readonly [Picture['type'], RegExp, (bytes: Buffer) => [width: number, height: number]][] = [
  ['png', /^\x89PNG\r\n\x1a\n.{4}IHDR/s, (bytes) => [bytes.readUInt32BE(16), bytes.readUInt32BE(20)]],
  ['gif', /^GIF8[79]a/, (bytes) => [bytes.readUInt16LE(6), bytes.readUInt16LE(8)]],
  // A negative BMP height means rows from top to bottom.
  ['bmp', /^BM/, (bytes) => bytes.readUInt32LE(14) === 12
    ? [bytes.readUInt16LE(18), bytes.readUInt16LE(20)]
    : [bytes.readInt32LE(18), Math.abs(bytes.readInt32LE(22))]],
  ['jpeg', /^\xff\xd8\xff/, sizeOfJpeg]
]

/** Reads an image header; null for unsupported formats. */
export function pictureOf (bytes: Buffer): Picture | null {
  const head = bytes.toString('latin1', 0, 16)
  const found = FORMATS.find(([, begins]) => begins.test(head))
  if (found === undefined) return null
  try {
    const [width, height] = found[2](bytes)
    return width > 0 && height > 0 ? { type: found[0], width, height } : null
  } catch (error) {
    // The header is truncated.
    if (error instanceof RangeError) return null
    throw error
  }
}

/** The first frame segment holds the size; earlier segments are skipped. */
function sizeOfJpeg (bytes: Buffer): [width: number, height: number] {
  for (let at = 2; bytes.readUInt8(at) === 0xff;) {
    const marker = bytes.readUInt8(at + 1)
    // SOF markers; c4, c8 and cc are in the same range but do not start a frame.
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      return [bytes.readUInt16BE(at + 7), bytes.readUInt16BE(at + 5)]
    }
    // A marker may have any number of FF fill bytes before it.
    at += marker === 0xff ? 1 : 2 + bytes.readUInt16BE(at + 2)
  }
  return [0, 0]
}
