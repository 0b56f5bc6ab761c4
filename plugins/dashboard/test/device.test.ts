import t from 'tap'
import { browserName, chosenWith, spaced } from '../page/device/words.js'

t.test('a browser names itself by its system', (t) => {
  const mozilla = 'Mozilla/5.0'
  const webkit = 'AppleWebKit/537.36'
  const rows: [agent: string, name: string][] = [
    [`${mozilla} (Linux; Android 10; K) ${webkit} Chrome/156.0 Mobile Safari/537.36`, 'Chrome on Android'],
    [`${mozilla} (iPhone; CPU iPhone OS 17_5 like Mac OS X) ${webkit} Version/17.5 Safari/604.1`,
      'Safari on iPhone'],
    [`${mozilla} (iPad; CPU OS 17_5 like Mac OS X) ${webkit} CriOS/126.0 Safari/604.1`,
      'Chrome on iPad'],
    [`${mozilla} (Macintosh; Intel Mac OS X 10_15_7) ${webkit} Version/17.5 Safari/605`, 'Safari on Mac'],
    [`${mozilla} (Windows NT 10.0; Win64; x64) ${webkit} Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0`,
      'Edge on Windows'],
    [`${mozilla} (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0`, 'Firefox on Linux'],
    ['', 'Browser']
  ]
  for (const [agent, name] of rows) t.equal(browserName(agent), name, agent)
  t.end()
})

t.test('what may not be done at all may not be done over a relay', (t) => {
  t.same(chosenWith(['read'], ['read'], 'operator', true),
    { authorities: ['read', 'operator'], viaRelay: ['read'] },
    'nothing more over a relay unless it is ticked there')
  t.same(chosenWith(['read', 'invoke'], ['read', 'invoke'], 'invoke', false),
    { authorities: ['read'], viaRelay: ['read'] })
  t.same(chosenWith(['read'], [], 'read', false), { authorities: [], viaRelay: [] })
  t.equal(spaced('012345'), '012 345')
  t.end()
})
