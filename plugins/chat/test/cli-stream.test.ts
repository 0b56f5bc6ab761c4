import t from 'tap'
import { visible } from '../../../kernel/cli/index.js'

t.test('what a terminal is shown', async (t) => {
  t.equal(visible('a\n\tb\x1b[31m\x07\r\x00\x7f\x9b2J ü😀'), 'a\n\tb[31m2J ü😀')
})
