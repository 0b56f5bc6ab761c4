import { render } from 'preact'
import { App } from './app.js'
import { find } from './device/own.js'
import { connect } from './link.js'

const root = document.getElementById('page')!
root.replaceChildren()
render(<App />, root)
void find().finally(connect)
