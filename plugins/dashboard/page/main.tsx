import { render } from 'preact'
import { App } from './app.js'
import { find } from './device/own.js'
import { signIn, takeCode } from './device/pair.js'
import { connect } from './link.js'

const root = document.getElementById('page')!
root.replaceChildren()
const code = takeCode()
render(<App />, root)
void find().then(async () => { if (code !== null) await signIn(code) }).finally(connect)
