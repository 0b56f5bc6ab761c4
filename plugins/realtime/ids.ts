import { randomUUID } from 'node:crypto'

/** An id in OpenAI's form: what it names, and random digits. */
export const newId = (kind: 'event' | 'item' | 'resp' | 'sess' | 'conv' | 'call'): string =>
  `${kind}_${randomUUID().replaceAll('-', '').slice(0, 24)}`
