/** Images in messages, as data URLs. Pure. */
import { fieldsOf } from '../json.js'
import { refused } from './errors.js'
import type { Fields } from '../json.js'

/** The model of a request, and whether it reads images. */
export interface Eyes { modelId: string, sees: boolean }

/** The formats that llama.cpp decodes. */
const DATA = /^data:image\/(png|jpeg|gif|bmp);base64,[A-Za-z0-9+/]+={0,2}$/

export const isImage = (part: Fields): boolean => part['type'] === 'image_url'

/**
 * An image as the engine takes it. `field` is what the client calls its source. Throws `invalid_request`
 * naming it for a model without eyes, for addresses of the network and for other formats.
 */
export function imagePart (part: Fields, path: string, eyes: Eyes, field = 'image_url'): Fields {
  const { url, detail } = fieldsOf(part['image_url'])
  const at = `${path}.${field}`
  if (!eyes.sees) {
    const name = eyes.modelId.slice(0, 200)
    throw refused(path, `is an image, and ${name} reads text only: it has no vision weights`)
  }
  if (typeof url !== 'string') throw refused(`${at}.url`, 'must be a string')
  if (!url.startsWith('data:')) {
    throw refused(at, 'is an address. None is fetched here: it could reach what only this node may. Send ' +
      'the image itself, as base64')
  }
  if (!DATA.test(url)) throw refused(at, 'must be a png, jpeg, gif or bmp image in base64')
  return { type: 'image_url', image_url: { url, ...detail === undefined ? {} : { detail } } }
}
