import t from 'tap'
import { pictureOf } from '../api/images.js'
import { png } from './api-kit.js'

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex')
/** A JPEG header: APP0, a Huffman table, whose marker FFC4 resembles a frame's, and a 48 x 32 frame. */
const JPEG = 'ffd8 ffe0 0010 4a46494600 0101 00 0001 0001 0000 ffc4 0003 00 ffff c2 0011 08 0020 0030 03'

t.test('what an image says of itself', (t) => {
  const rows: [string, Buffer, unknown][] = [
    ['png', Buffer.from(png(7, 5), 'base64'), { type: 'png', width: 7, height: 5 }],
    ['gif', hex('474946383961 0300 0200 80 00 00'), { type: 'gif', width: 3, height: 2 }],
    ['bmp', hex(`424d ${'00'.repeat(12)} 28000000 09000000 fcffffff`), { type: 'bmp', width: 9, height: 4 }],
    ['an old bmp', hex(`424d ${'00'.repeat(12)} 0c000000 0900 0400`), { type: 'bmp', width: 9, height: 4 }],
    ['jpeg', hex(JPEG), { type: 'jpeg', width: 48, height: 32 }],
    ['a jpeg without a frame', hex('ffd8 ffe0 0003 00 ffd9'), null],
    ['webp', Buffer.from('RIFF\0\0\0\0WEBPVP8 '), null],
    ['without a size', hex('474946383961 0000 0200'), null],
    ['nothing', Buffer.alloc(0), null],
    ['a text', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'), null]
  ]
  for (const [name, bytes, expect] of rows) t.same(pictureOf(bytes), expect, name)
  for (const [, bytes, expect] of rows.filter(([, , picture]) => picture !== null)) {
    for (let end = 0; end < bytes.length; end++) {
      const found = pictureOf(bytes.subarray(0, end))
      if (found !== null) t.same(found, expect, 'a part says the same, or nothing')
    }
  }
  t.end()
})
