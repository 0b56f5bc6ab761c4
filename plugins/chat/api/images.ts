/** Images in messages, as data URLs. Pure. */
import { fieldsOf } from '../../runners/language/json.js'
import { invalidField } from './errors.js'
import type { Fields } from '../../runners/language/json.js'

/** The model of a request, and whether it reads images. */
export interface VisionSupport { modelId: string, sees: boolean }

/** Whatever the address says the image is: that is looked for in its bytes. */
const DATA = /^data:[^,]{0,200};base64,/i
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/
/** Decoded, an image takes three bytes for each: a small file may be a picture of a size no memory has. */
const MOST_PIXELS = 2 ** 25

/** What an image says of itself. */
export interface Picture { type: 'png' | 'jpeg' | 'gif' | 'bmp', width: number, height: number }

export const isImage = (part: Fields): boolean => part['type'] === 'image_url'

/**
 * An image as the engine takes it. `field` is what the client calls its source. Throws `invalid_request`
 * naming it for a model without eyes, for addresses of the network, for other formats and for too many
 * pixels.
 */
export function imagePart (part: Fields, path: string, eyes: VisionSupport, field = 'image_url'): Fields {
  const { url, detail } = fieldsOf(part['image_url'])
  const at = `${path}.${field}`
  mustSee(eyes, path)
  if (typeof url !== 'string') throw invalidField(`${at}.url`, 'must be a string')
  const head = DATA.exec(url)?.[0]
  if (head === undefined && !/^data:/i.test(url)) {
    throw invalidField(at,
      'is an address. None is fetched here: it could reach what only this node may. Send ' +
      'the image itself, as a data: URL in base64')
  }
  return partOf(head === undefined ? '' : url.slice(head.length), at, detail)
}

/** An image that comes as base64 alone. Throws what `imagePart` throws, naming `path`. */
export function plainImage (data: string, path: string, eyes: VisionSupport): Fields {
  mustSee(eyes, path)
  return partOf(data.replace(DATA, ''), path)
}

/** Parts as they are where there is an image among them, else their text. */
export const textUnlessImages = (parts: Fields[]): string | Fields[] =>
  parts.some(isImage) ? parts : parts.map(({ text }) => text).join('\n')

function mustSee ({ modelId, sees }: VisionSupport, path: string): void {
  if (sees) return
  throw invalidField(path,
    `is an image, and ${modelId.slice(0, 200)} reads text only: it has no vision weights`)
}

function partOf (given: string, path: string, detail?: unknown): Fields {
  const data = given.replace(/\s+/g, '')
  const picture = BASE64.test(data) ? pictureOf(Buffer.from(data, 'base64')) : null
  if (picture === null) throw invalidField(path, 'must be a png, jpeg, gif or bmp image in base64')
  const { type, width, height } = picture
  if (width * height > MOST_PIXELS) {
    throw invalidField(path,
      `has ${width} x ${height} pixels; at most ${MOST_PIXELS} are taken: make it smaller`)
  }
  const url = `data:image/${type};base64,${data}`
  return { type: 'image_url', image_url: { url, ...detail == null ? {} : { detail } } }
}

/** The formats that llama.cpp decodes: the bytes they begin with, in latin1, and where their sizes are. */
const FORMATS: readonly [Picture['type'], RegExp, (bytes: Buffer) => [width: number, height: number]][] = [
  ['png', /^\x89PNG\r\n\x1a\n.{4}IHDR/s, (bytes) => [bytes.readUInt32BE(16), bytes.readUInt32BE(20)]],
  ['gif', /^GIF8[79]a/, (bytes) => [bytes.readUInt16LE(6), bytes.readUInt16LE(8)]],
  // Lines may be told from the bottom up or, by a negative height, from the top down.
  ['bmp', /^BM/, (bytes) => bytes.readUInt32LE(14) === 12
    ? [bytes.readUInt16LE(18), bytes.readUInt16LE(20)]
    : [bytes.readInt32LE(18), Math.abs(bytes.readInt32LE(22))]],
  ['jpeg', /^\xff\xd8\xff/, sizeOfJpeg]
]

/** What the head of an image says; null for what is none of the formats that are taken. */
export function pictureOf (bytes: Buffer): Picture | null {
  const head = bytes.toString('latin1', 0, 16)
  const found = FORMATS.find(([, begins]) => begins.test(head))
  if (found === undefined) return null
  try {
    const [width, height] = found[2](bytes)
    return width > 0 && height > 0 ? { type: found[0], width, height } : null
  } catch (error) {
    // It ends within its head.
    if (error instanceof RangeError) return null
    throw error
  }
}

/** The size is in the first segment of a frame; those before it are skipped. */
function sizeOfJpeg (bytes: Buffer): [width: number, height: number] {
  for (let at = 2; bytes.readUInt8(at) === 0xff;) {
    const marker = bytes.readUInt8(at + 1)
    // The kinds of frames, and three tables among them.
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      return [bytes.readUInt16BE(at + 7), bytes.readUInt16BE(at + 5)]
    }
    // Any number of FF may stand before a marker.
    at += marker === 0xff ? 1 : 2 + bytes.readUInt16BE(at + 2)
  }
  return [0, 0]
}
